"""The message listener containers: life cycle, consumers, scaling, recovery, transactions."""
