"""The blocking API: blocking objects that call the coroutine core from threads."""
