"""Secure aggregation without a network: bytes in, bytes out. See README.md for the order to read in."""
