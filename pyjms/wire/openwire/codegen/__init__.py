"""The generator of the command classes; nothing imports it at run time."""
