"""Commands that manage a running broker through its management views."""
