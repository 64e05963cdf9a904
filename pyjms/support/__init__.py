"""What template and listeners share: resolvers, converters, headers, quality of service."""
