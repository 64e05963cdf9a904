"""A join of two streams: flights that left late in bad weather."""
