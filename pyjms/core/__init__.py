"""The template, and what binds a session to the code that runs under it."""
