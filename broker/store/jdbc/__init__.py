"""Messages in a database: ActiveMQ's tables, through SQLAlchemy."""
