"""Brokers with a web server, the console's, Jolokia's and REST's requests, recorded and random."""
