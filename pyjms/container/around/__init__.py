"""Interceptors and instrumentation of an application, its embedded broker, and its health."""
