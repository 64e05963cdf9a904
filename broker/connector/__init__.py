"""Where clients come in: sockets, connections in this process, and what each client holds."""
