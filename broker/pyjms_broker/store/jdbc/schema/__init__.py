"""The tables: their definitions, the statements on them, and the formats of their columns."""
