"""The benchmark of secure rounds: three contenders, each a server and clients of its own."""

from __future__ import annotations

from bench.federated import CONTENDERS, Work, measure


def test_a_round_of_each_contender_is_played_and_counted() -> None:
    clients, length = 3, 1000
    figures = measure(clients, 1, Work(length, examples=32, epochs=1))
    assert figures["plain, up, bytes"] == 4 * length
    # The same messages but for the masks.
    assert figures["secure, up, bytes"] == figures["unmasked, up, bytes"] > 2 * length
    for name in CONTENDERS:
        assert figures[f"{name}, CPU s of clients"] > 0
        assert figures[f"{name}, s"] > 0
