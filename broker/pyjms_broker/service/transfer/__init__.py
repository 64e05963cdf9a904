"""Messages to a file and back. `message_file` is the format; stores are read and written here.

What goes through a running broker is the command line's: it is a client's work.
"""
