"""Cursors: the pending messages of a destination, in order of dispatch."""
