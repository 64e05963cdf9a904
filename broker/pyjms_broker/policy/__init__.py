"""Settings by destination, and the strategies they name."""
