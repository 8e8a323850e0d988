"""Makes the test vectors for other languages: `PYTHONPATH=. python tests/fl_server/fl_vectors.py`.

Every random byte is in them. Bytes are hexadecimal; ids, counts and words are numbers.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from fl_people import (
    AUTHORITY,
    CONTEXT,
    NOW,
    Table,
    encoding_of,
    identity_of,
    identity_seed,
    seeded,
    subject_of,
)

from fl_server.messages import request_signed
from fl_server.secagg import labels, mask, seal, shamir
from fl_server.secagg.certificate import certify, revoke
from fl_server.secagg.encode import Update, checksum, encode
from fl_server.secagg.graph import ring, security_bits
from fl_server.secagg.keys import Exchange, model_digest, public_of
from fl_server.secagg.messages import SHARE_OF_B
from fl_server.secagg.pack import pack
from fl_server.secagg.params import (
    Encoding,
    Params,
    complete_graph,
    least_ring_bits,
    least_threshold,
)
from fl_server.secagg.policy import Policy
from fl_server.secagg.secrets import commitment
from fl_server.secagg.session import merkle_root, sign_advert

FOLDER = Path(__file__).parents[1] / "golden" / "secagg"
SESSION = bytes(range(32))


def boxes() -> dict[str, Any]:
    """Each box of the protocol alone."""
    return {
        "about": "bytes are hexadecimal; session is the id that keys are bound to",
        "session": SESSION.hex(),
        "threshold_and_ring": _sizes(),
        "pack": _packing(),
        "shamir": _sharing(),
        "keys": _keys(),
        "seal": _sealing(),
        "mask": _masking(),
        "signatures": _signatures(),
        "merkle": _merkle(),
        "hashes": _hashes(),
        "encode": _encoding(),
        "graph": _graph(),
    }


def round_of_three() -> dict[str, Any]:
    """A whole round of three clients, of which all finish: every message, every secret."""
    return _round(Table(3))


def round_with_drop_outs() -> dict[str, Any]:
    """Of eight clients one never shares and one never uploads."""
    table = Table(8, max_weight=5)
    return _round(table, never_shares=table.ids[2], never_uploads=table.ids[5])


def round_on_a_ring() -> dict[str, Any]:
    """Nine clients with four neighbours each; no real cohort is so small."""

    def four(clients: int, encoding: Encoding) -> Params:
        return replace(complete_graph(clients, encoding), neighbours=4, threshold=3)

    table = Table(9, make_params=four, policy=Policy(2, sparse_bits=0), value_bits=30, max_weight=9)
    return _round(table)


def _round(table: Table, never_shares: int = 0, never_uploads: int = 0) -> dict[str, Any]:
    joined = dict(table.joined)
    table.joined.pop(never_shares, None)
    table.agree(without=(never_uploads,))
    reveals = {
        i: state.receive_agreements(table.reveals.reply).message
        for i, state in table.agreed.items()
    }
    for i, message in reveals.items():
        table.reveals.receive(i, message)
    total = table.reveals.close()
    params = table.shares.session.params
    return {
        "authority": AUTHORITY.public.hex(),
        "context": asdict(CONTEXT) | {"model": CONTEXT.model.hex()},
        "now": NOW,
        "encoding": asdict(table.encoding),
        "params": params.to_bytes().hex(),
        "session": total.session.id.hex(),
        "cohort": table.shares.reply.hex(),
        "clients": {
            str(i): _client(table, i, joined[i].message, reveals.get(i)) for i in table.ids
        },
        "survivors": table.agreements.reply.hex(),
        "agreements": table.reveals.reply.hex(),
        "sum": [int(word) for word in total.words],
        "mean": [float(x) for x in total.mean().delta],
    }


def _client(table: Table, i: int, advert: bytes, reveal: bytes | None) -> dict[str, Any]:
    """One client's round, as far as it went; `random` is all that it drew, in order."""
    update = table.updates[i]
    fields: dict[str, Any] = {
        "identity_seed": identity_seed(table.ids.index(i)).hex(),
        "certificate": table.people[i].certificate.to_bytes().hex(),
        "random": [drawn.hex() for drawn in table.draws[i]],
        "neighbours": list(table.shares.session.neighbours(i)),
        "update": [float(x) for x in update.delta],
        "weight": update.weight,
        "loss": update.loss,
        "correct": update.correct,
        "examples": update.examples,
        "advert": advert.hex(),
    }
    if i in table.shared:
        fields |= {"shares": table.shared[i].message.hex(), "boxes": table.vectors.reply(i).hex()}
    if reveal is not None:
        fields |= {
            "vector": table.masked[i].message.hex(),
            "agree": table.agreed[i].message.hex(),
            "reveal": reveal.hex(),
        }
    return fields


def _sizes() -> list[dict[str, int]]:
    rows = [(20, 16, 1), (20, 8, 1), (50, 16, 1), (100, 16, 1), (20, 16, 64), (255, 24, 1)]
    return [
        {
            "clients": n,
            "value_bits": b,
            "max_weight": w,
            "threshold": least_threshold(n - 1),
            "ring_bits": least_ring_bits(n, encoding_of(1, value_bits=b, max_weight=w)),
        }
        for n, b, w in rows
    ]


def _packing() -> list[dict[str, Any]]:
    out = []
    for bits, count in ((1, 9), (13, 5), (21, 70), (32, 3), (47, 4)):
        words = [(0x9E3779B97F4A7C15 * (i + 1)) % 2**bits for i in range(count)]
        packed = pack(np.array(words, np.uint64), bits)
        out.append({"bits": bits, "words": words, "packed": packed.hex()})
    return out


def _sharing() -> list[dict[str, Any]]:
    out = []
    for threshold, count in ((2, 3), (5, 7), (14, 19)):
        draw = seeded(threshold)
        secret, random = draw(32), draw(32 * (threshold - 1))
        shares = shamir.split(secret, threshold, count, random)
        row = {"threshold": threshold, "secret": secret.hex(), "random": random.hex()}
        out.append(row | {"shares": [bytes(share).hex() for share in shares]})
    return out


def _keys() -> dict[str, Any]:
    draw = seeded("keys")
    a, b = draw(32), draw(32)
    shared = Exchange(a).shared(public_of(b))
    return {
        "secret_a": a.hex(),
        "secret_b": b.hex(),
        "public_a": public_of(a).hex(),
        "public_b": public_of(b).hex(),
        "shared": shared.hex(),
        "pair_key_of_3_and_9_at_21_bits": mask.pair_key(shared, SESSION, 9, 3, 21).hex(),
        "self_key_of_3_at_21_bits": mask.self_key(a, SESSION, 3, 21).hex(),
        "sign_of_3_with_9": mask.pair_sign(3, 9),
        "sign_of_9_with_3": mask.pair_sign(9, 3),
    }


def _sealing() -> dict[str, str]:
    shared, shares = bytes(range(100, 132)), bytes(range(66))
    return {
        "shared": shared.hex(),
        "shares": shares.hex(),
        "box_from_3_to_9": seal.seal(shared, SESSION, 3, 9, shares).hex(),
        "box_from_9_to_3": seal.seal(shared, SESSION, 9, 3, shares).hex(),
    }


def _masking() -> dict[str, Any]:
    key = bytes(range(16))
    return {
        "key": key.hex(),
        "words_at_21_bits": [int(w) for w in mask.expand(key, 9, 21)],
        "words_at_40_bits": [int(w) for w in mask.expand(key, 9, 40)],
    }


def _signatures() -> dict[str, Any]:
    seed = "SHA-256 of the text 'identity 0' and, for the authority, of 'authority'"
    identity = identity_of(0)
    subject = subject_of(0, identity.public)
    advert = sign_advert(identity, 10, CONTEXT, bytes(32), bytes(range(32)), bytes(16))
    request = request_signed("PUT", "/sessions/00/agree", 17, b"body")
    return {
        "seeds": seed,
        "identity": identity.public.hex(),
        "authority": AUTHORITY.public.hex(),
        "subject": asdict(subject) | {"public_key": subject.public_key.hex()},
        "certificate": certify(AUTHORITY, subject).to_bytes().hex(),
        "revocations_4_of_1000_and_1001": revoke(AUTHORITY, 4, {1001, 1000}).to_bytes().hex(),
        "context": CONTEXT.to_bytes().hex(),
        "advert": advert.to_bytes().hex(),
        "request": request.decode(),
        "request_signature": identity.sign(labels.REQUEST, request).hex(),
    }


def _merkle() -> list[dict[str, Any]]:
    leaves = [bytes([i]) * 3 for i in range(7)]
    return [
        {"leaves": [leaf.hex() for leaf in leaves[:n]], "root": merkle_root(leaves[:n]).hex()}
        for n in (1, 2, 3, 7)
    ]


def _hashes() -> dict[str, str]:
    session = Table(3).shares.session
    return {
        "model_digest_of_32_times_01_and_02": model_digest(b"\x01" * 32, b"\x02" * 32).hex(),
        "commitment_to_32_times_07": commitment(SESSION, b"\x07" * 32).hex(),
        "digest_of_share_of_b_01_32_times_07_of_10_for_13": session.share_digest(
            10, 13, SHARE_OF_B, b"\x01" + b"\x07" * 32
        ).hex(),
        "session_of_that_digest": session.id.hex(),
        "agreement_of_all_to_all_but_16": session.agreement(
            session.ids, [i for i in session.ids if i != 16]
        ).hex(),
    }


def _encoding() -> dict[str, Any]:
    params = complete_graph(20, encoding_of(6, max_weight=9, clip_norm=2.0))
    delta, seed = np.array([0.5, -0.25, 0, 2, -3, 1e-6], np.float32), bytes(range(32))
    update = Update(delta, weight=3, loss=1.5, correct=4, examples=10)
    words = encode(update, params, SESSION, seed)
    return {
        "params": params.to_bytes().hex(),
        "ring_bits": params.ring_bits,
        "update": [float(x) for x in delta],
        "weight": 3,
        "loss": 1.5,
        "correct": 4,
        "examples": 10,
        "seed": seed.hex(),
        "words": [int(word) for word in words],
        "checksum_of_the_words_before_it": checksum(words[:-1], params, SESSION),
    }


def _graph() -> dict[str, Any]:
    nonces = {7 * i + 2: seeded(i)(16) for i in range(11)}
    rows = [(256, 94, 71), (300, 90, 66), (1000, 160, 121), (10_000, 212, 159)]
    return {
        "nonces": {str(i): nonce.hex() for i, nonce in nonces.items()},
        "ring_of_4": {str(i): list(near) for i, near in sorted(ring(nonces, 4).items())},
        "security": [
            {
                "clients": n,
                "neighbours": k,
                "threshold": t,
                "bits": round(security_bits(n, k, t), 6),
            }
            for n, k, t in rows
        ],
    }


FILES = {
    "boxes.json": boxes,
    "round_of_three.json": round_of_three,
    "round_with_drop_outs.json": round_with_drop_outs,
    "round_on_a_ring.json": round_on_a_ring,
}


def text_of(name: str) -> str:
    return json.dumps(FILES[name](), indent=1) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (FOLDER / name).write_text(text_of(name))
