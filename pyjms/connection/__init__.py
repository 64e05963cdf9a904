"""Connection factories that wrap other connection factories, and the JMS transaction manager."""
