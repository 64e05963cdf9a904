"""The built-in broker filters, with one behaviour each."""
