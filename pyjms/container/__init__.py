"""The application container: the objects of an application, created from its settings."""
