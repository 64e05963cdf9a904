"""Brokers, driver processes and kill points for tests with Spark."""
