"""The objects of an application, wired from its settings (dependency injection)."""
