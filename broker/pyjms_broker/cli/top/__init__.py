"""`pyjms broker top`: a live view of a broker's destinations in the terminal."""
