"""The format `jms-journal`: a broker's journal files, ours or ActiveMQ's, as a batch source."""
