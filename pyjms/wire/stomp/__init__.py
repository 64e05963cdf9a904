"""STOMP 1.0 to 1.2: frames to bytes and back, without I/O."""
