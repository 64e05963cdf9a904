"""The journal: appending, group commit, segments, locks, and what disks do."""
