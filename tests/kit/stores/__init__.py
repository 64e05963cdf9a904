"""Stores of brokers: their files, disks that fail, and what they hold."""
