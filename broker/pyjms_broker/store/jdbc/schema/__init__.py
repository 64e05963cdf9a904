"""The database schema: table definitions, statements, and column formats."""
