"""The definition of pipelines: decorator, values, checks, and the pipelines in the settings."""
