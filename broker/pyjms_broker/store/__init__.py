"""Message stores: the persistence adapter interface and its implementations."""
