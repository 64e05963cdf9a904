"""Dead letters, and the order in which they and their messages are stored."""
