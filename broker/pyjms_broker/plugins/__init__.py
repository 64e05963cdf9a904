"""ActiveMQ's broker plug-ins: a module for each, with its options and its broker filter."""
