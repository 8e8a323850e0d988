"""The committed vectors, which other languages pass, are what this code makes and can read."""

from __future__ import annotations

import json

import pytest
from fl_vectors import FILES, FOLDER, text_of

from fl_server.secagg import shamir
from fl_server.secagg.messages import CohortReply, Reveal, SharesUp
from fl_server.secagg.pack import unpack
from fl_server.secagg.session import open_session

ROUNDS = [name for name in FILES if name.startswith("round_")]


@pytest.mark.parametrize("name", FILES)
def test_vectors_are_fresh(name):
    made = f"{name} differs from what tests/fl_server/fl_vectors.py writes"
    assert (FOLDER / name).read_text() == text_of(name), made


@pytest.mark.parametrize("name", ROUNDS)
def test_a_round_can_be_followed_from_its_file_alone(name):
    kept = json.loads((FOLDER / name).read_text())
    session = open_session(CohortReply.from_bytes(bytes.fromhex(kept["cohort"])))
    assert session.id.hex() == kept["session"]
    bits, count = session.params.ring_bits, session.params.encoding.total_length
    clients = {int(i): fields for i, fields in kept["clients"].items()}
    revealing = {i: fields for i, fields in clients.items() if "reveal" in fields}
    for i, fields in revealing.items():
        up = SharesUp.from_bytes(bytes.fromhex(fields["shares"]))
        assert len(up.sealed) == len(session.neighbours(i)) == session.params.neighbours
        assert list(session.neighbours(i)) == fields["neighbours"]
        assert len(unpack(bytes.fromhex(fields["vector"]), count, bits)) == count
        shares = [
            Reveal.from_bytes(bytes.fromhex(other["reveal"])).shares[session.neighbours(j).index(i)]
            for j, other in revealing.items()
            if i in session.neighbours(j)
        ]
        b = shamir.combine([share.share for share in shares], session.params.threshold)
        assert b.hex() == fields["random"][2]
