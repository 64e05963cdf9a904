"""Changes of a running broker's configuration file: what is different, and how it is applied."""
