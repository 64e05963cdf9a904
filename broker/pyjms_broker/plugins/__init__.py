"""ActiveMQ's broker plug-ins: one module each, with its options and its broker filter."""
