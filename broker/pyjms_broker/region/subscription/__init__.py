"""The common part of subscriptions: prefetch window, acknowledgements, redelivery marking."""
