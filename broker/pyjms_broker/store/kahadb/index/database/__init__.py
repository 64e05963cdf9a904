"""The sqlite3 database that holds the index on disk."""
