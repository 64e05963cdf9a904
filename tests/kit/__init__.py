"""The test library of this project: what more than one test package uses."""
