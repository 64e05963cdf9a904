"""The blocking API: the coroutine core, called from threads."""
