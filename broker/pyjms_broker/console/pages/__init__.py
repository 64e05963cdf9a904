"""The pages, as coroutine functions of the console and a request."""
