"""`pyjms run --workers N` and `--reload`: an application in processes of its own, supervised."""
