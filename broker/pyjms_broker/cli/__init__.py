"""`pyjms broker`: the command line of the broker."""
