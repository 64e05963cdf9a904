"""Looks into a journal's folder from outside: nothing here writes to it, except `rebuilding`."""
