"""Two streams joined: flights that left late while the weather was bad."""
