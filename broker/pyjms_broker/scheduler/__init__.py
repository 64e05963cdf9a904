"""Messages that are delivered later, and again and again: what clients order by properties."""
