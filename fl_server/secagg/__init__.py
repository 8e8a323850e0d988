"""Secure aggregation without a network, bytes in and bytes out; README.md says how to read it."""
