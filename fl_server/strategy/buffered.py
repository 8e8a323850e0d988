"""Buffered asynchronous aggregation: Nguyen 2022, "Federated learning with buffered asynchronous
aggregation" (FedBuff)."""

from __future__ import annotations


def staleness_weight(versions: int) -> float:
    """1 / sqrt(1 + versions): what a buffer's mean counts for whose devices began from weights
    that were so many versions old when it is added."""
    return float((1 + versions) ** -0.5)
