"""Statistics with ActiveMQ's names, in a layer below the client, as pools also have statistics.

ActiveMQ: org.apache.activemq.management.
"""
