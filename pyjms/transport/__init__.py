"""How commands travel: a chain of filters over a socket, a peer in this process, or a test's script."""
