"""STOMP clients, their scripts, and random input for the codec and the sockets."""
