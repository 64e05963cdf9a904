"""`pyjms broker`: the broker's command line."""
