"""Child processes: Python programs, command lines, interpreters of other versions."""
