"""Statistics with ActiveMQ's names, below the client: pools, too, have some.

ActiveMQ: org.apache.activemq.management.
"""
