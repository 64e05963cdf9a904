"""The pages: each a coroutine function of the console and a request."""
