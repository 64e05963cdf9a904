"""`pyjms run --workers N` and `--reload`: an application in supervised worker processes."""
