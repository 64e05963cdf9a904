"""The blocking face: the coroutine core, called from threads."""
