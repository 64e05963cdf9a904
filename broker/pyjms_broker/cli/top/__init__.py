"""`pyjms broker top`: a broker's destinations in the terminal, live."""
