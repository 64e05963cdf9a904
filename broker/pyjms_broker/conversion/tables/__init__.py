"""The conversion tables: ActiveMQ's elements and attributes, and their counterparts."""
