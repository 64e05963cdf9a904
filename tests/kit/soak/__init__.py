"""The soak: a broker under load, kills, pauses, disk faults and hostile clients at once.

`supervisor` starts a broker and its clients as processes and disturbs them by a seeded plan. The
clients write what they send and handle to files, and `account` judges these afterwards.
"""
