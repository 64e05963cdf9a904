"""KahaDB: the journal store, in the file format of ActiveMQ's default store, with its own index."""
