"""Wire formats without I/O: bytes in, commands out, and back."""
