"""Messages to a file and back: `message_file` is the format, `from_folder` and `into_folder` stores.

What goes through a running broker is the command line's: it is a client's work.
"""
