"""Shared by templates and listeners: resolvers, converters, header mapping, quality of service."""
