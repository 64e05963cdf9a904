"""Stores of brokers: their files, failing disks, and their contents."""
