"""The data of the console's pages, read from the management model, independent of HTTP."""
