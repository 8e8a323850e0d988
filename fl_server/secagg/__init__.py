"""Secure aggregation without a network: bytes in, bytes out. README.md says in which order to read."""
