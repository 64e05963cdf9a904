"""The application's objects, wired from its settings."""
