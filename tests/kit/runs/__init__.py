"""How pytest runs these tests: shared out among workers, on which event loop, in which folders."""
