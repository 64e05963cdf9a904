"""How commands travel: filters over a socket, a peer in this process, or a test's script."""
