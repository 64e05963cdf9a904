"""The source for our broker: batches are ranges of a queue's numbers, read as often as needed."""
