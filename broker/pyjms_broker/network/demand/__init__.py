"""What consumers of a remote broker want of this one, and the subscriptions that follow from it."""
