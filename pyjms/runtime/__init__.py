"""What the program runs on: clock, event loop, processes, signals, logging, ids, packages."""
