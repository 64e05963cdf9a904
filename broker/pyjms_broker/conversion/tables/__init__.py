"""The tables of the conversion: ActiveMQ's elements and attributes, and what becomes of them."""
