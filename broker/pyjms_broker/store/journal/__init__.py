"""The journal: appending, group commit, segments, recovery, and disk operations."""
