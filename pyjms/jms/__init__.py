"""The JMS API: destinations, messages, and what a provider implements."""
