"""The JMS API: destinations, messages, and the interfaces that a provider implements."""
