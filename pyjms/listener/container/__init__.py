"""Message listener containers; `default` explains how the modules of this package interact."""
