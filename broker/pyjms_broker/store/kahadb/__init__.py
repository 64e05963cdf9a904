"""KahaDB: the journal store, in the files of ActiveMQ's default store, with an index of our own."""
