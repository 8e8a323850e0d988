"""Makes the test vectors for other languages: `PYTHONPATH=. python tests/fl_server/fl_vectors.py`.

Every random byte is in them. Bytes are hexadecimal; ids, counts and words are numbers.
"""

from __future__ import annotations

import json
from dataclasses import asdict
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
    seeded,
    subject_of,
)

from fl_server.messages import request_signed
from fl_server.secagg import labels, mask, seal, shamir
from fl_server.secagg.certificate import certify, revoke
from fl_server.secagg.client import commitment
from fl_server.secagg.encode import Update, checksum, encode
from fl_server.secagg.keys import exchange, model_digest, public_of
from fl_server.secagg.pack import pack
from fl_server.secagg.params import complete_graph, least_ring_bits, least_threshold
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
    }


def round_of_three() -> dict[str, Any]:
    """A whole round of three clients, of which all finish: every message, every secret."""
    table = Table(3)
    table.agree()
    secrets = {i: _secrets(table, i) for i in table.ids}
    cohort, survivors = table.shares.reply.hex(), table.agreements.reply.hex()
    agreements = table.reveals.reply.hex()
    reveals = {
        i: state.receive_agreements(table.reveals.reply).message.hex()
        for i, state in table.agreed.items()
    }
    for i in table.ids:
        table.reveals.receive(i, bytes.fromhex(reveals[i]))
    total = table.reveals.close()
    return {
        "authority": AUTHORITY.public.hex(),
        "context": asdict(CONTEXT) | {"model": CONTEXT.model.hex()},
        "now": NOW,
        "encoding": asdict(table.encoding),
        "session": total.session.id.hex(),
        "cohort": cohort,
        "clients": {
            str(i): {
                **secrets[i],
                "update": [float(x) for x in table.updates[i].delta],
                "loss": table.updates[i].loss,
                "correct": table.updates[i].correct,
                "examples": table.updates[i].examples,
                "advert": table.joined[i].message.hex(),
                "shares": table.shared[i].message.hex(),
                "boxes": table.vectors.reply(i).hex(),
                "vector": table.masked[i].message.hex(),
                "agree": table.agreed[i].message.hex(),
                "reveal": reveals[i],
            }
            for i in table.ids
        },
        "survivors": survivors,
        "agreements": agreements,
        "sum": [int(word) for word in total.words],
        "mean": [float(x) for x in total.mean().delta],
    }


def _secrets(table: Table, i: int) -> dict[str, str]:
    secrets = table.agreed[i]._client.secrets
    return {
        "identity": identity_of(table.ids.index(i)).public.hex(),
        "share_secret": secrets.share_secret.hex(),
        "mask_secret": secrets.mask_secret.hex(),
        "b": secrets.b.hex(),
    }


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
    shared = exchange(a, public_of(b))
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
    return {
        "model_digest_of_32_times_01_and_02": model_digest(b"\x01" * 32, b"\x02" * 32).hex(),
        "commitment_to_32_times_07": commitment(SESSION, b"\x07" * 32).hex(),
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


FILES = {"boxes.json": boxes, "round_of_three.json": round_of_three}


def text_of(name: str) -> str:
    return json.dumps(FILES[name](), indent=1) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (FOLDER / name).write_text(text_of(name))
