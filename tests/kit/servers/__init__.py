"""Programs of others that tests run: ActiveMQ and Artemis, Java clients, PostgreSQL, slapd."""
