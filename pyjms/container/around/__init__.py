"""What surrounds the sends and handlers of an application, and the answers about its health."""
