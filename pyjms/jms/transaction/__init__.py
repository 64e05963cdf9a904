"""Transactions beyond `commit` and `rollback`: XA, synchronizations, redelivery delays."""
