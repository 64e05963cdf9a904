"""What the console's pages show, read from the management model; nothing here knows of HTTP."""
