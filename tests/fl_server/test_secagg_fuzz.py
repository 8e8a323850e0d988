"""Rounds over a network that does what it likes; the long run is `make fuzz-protocol`."""

from __future__ import annotations

import pytest
from fl_fuzz import run

from fl_server.secagg import client, stage, unmask


def test_whatever_a_network_does_the_sum_is_exact_or_the_round_fails():
    counts = run(0, 60)
    assert min(counts["rounds that finished"], counts["rounds that failed"]) > 5
    # What the rounds met; without these they would not have tried much.
    for error in ("StageReplayed", "Malformed", "Gone", "BadSignature", "RoundFailed"):
        assert counts[error] > 0, error


@pytest.mark.parametrize(
    ("side", "rule", "broken"),
    [
        (client._State, "_answered", lambda self, received: None),
        (stage.Stage, "is_repeat", lambda self, sender, message, digest=b"": False),
        (unmask.Reveals, "_own_mask", lambda self, owner, b: []),
    ],
)
def test_the_fuzzer_finds_a_rule_that_is_not_kept(monkeypatch, side, rule, broken):
    monkeypatch.setattr(side, rule, broken)
    if side is unmask.Reveals:  # the checksum finds this one before the fuzzer does
        assert run(0, 12)["rounds that finished"] == 0
        return
    with pytest.raises(AssertionError):
        run(0, 30)
