"""What a pipeline is: the decorator, its values, its checks, and the pipelines of settings."""
