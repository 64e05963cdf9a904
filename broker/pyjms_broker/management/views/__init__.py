"""The kinds of views, each with a table of attributes and a table of operations."""
