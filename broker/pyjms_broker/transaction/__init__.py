"""Local and XA transactions, and the broker filter that begins and ends them."""
