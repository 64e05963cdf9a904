"""The kinds of views, each a table of attributes and one of operations."""
