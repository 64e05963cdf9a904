"""Cursors: the messages of a destination that wait for dispatch, in order."""
