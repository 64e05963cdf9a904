"""The message stores of a KahaDB store: one for each queue and topic."""
