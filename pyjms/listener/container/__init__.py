"""Message listener containers; `default` says how the modules of this package work together."""
