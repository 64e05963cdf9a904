"""What all subscriptions share: the prefetch window, acknowledgements, redelivery marking."""
