"""Transactions beyond `commit` and `rollback`: XA, what is called at their end, redeliveries."""
