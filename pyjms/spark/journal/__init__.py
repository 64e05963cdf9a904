"""The format `jms-journal`: KahaDB journal files, of the bundled broker or ActiveMQ."""
