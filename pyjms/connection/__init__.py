"""Connection factories around connection factories, and the JMS transaction manager."""
