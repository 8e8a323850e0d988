"""Damaged and hostile files: `python -m tests.lite_runtime.mutations PLAIN FORGED SEED [EACH]`.

Opens PLAIN files with random damage, which must all be refused, and FORGED ones, whose index was
changed and whose hashes were then made right again, so that they reach the checks behind the
hashes: those may run or be refused. Then EACH forgeries (`forgeries.py`) of each of ten models,
some kinds of which must all be refused. Prints counts as JSON. Crashes and hangs end the process.
"""

from __future__ import annotations

import hashlib
import json
import resource
import signal
import struct
import sys
from collections import Counter
from collections.abc import Callable

import numpy as np

import lite_runtime as lite
from ir import model_file
from ir.graph import Model
from ir.index_reader import segment_rows
from tests.lite_runtime.forge import TRAILER, with_hashes
from tests.lite_runtime.forgeries import FORGERIES, NEVER
from tests.lite_runtime.found_models import collecting_loop, rows_graph
from tests.lite_runtime.models import (
    control_models,
    every_dtype,
    indices,
    linear_model,
    small_cnn,
)
from tests.random_graphs import random_model, random_symbolic_graph

SECONDS_EACH = 20
MODELS = 10  # that forgeries are made of
MOST_MEMORY, MOST_STEPS, MOST_DEPTH = 1 << 26, 100_000, 1000
LIMITS = {"most_memory": MOST_MEMORY, "most_steps": MOST_STEPS, "most_depth": MOST_DEPTH}
Rng = np.random.Generator
Mutation = Callable[[bytes, Rng, list[bytes]], bytes]


def originals() -> list[bytes]:
    """Files that between them have every kind of row and of attribute."""
    models = [linear_model(), small_cnn(), Model({"infer": every_dtype()})]
    models += [Model({"infer": indices()}), Model({"infer": random_symbolic_graph(3)})]
    models += control_models()
    models += [Model({"infer": rows_graph()}), Model({"infer": collecting_loop(3)})]
    return [model_file.write(m) for m in (*models, *map(random_model, range(8)))]


def flip_bits(file: bytes, rng: Rng, _: list[bytes]) -> bytes:
    out = bytearray(file)
    for _i in range(rng.integers(1, 4)):
        out[rng.integers(len(out))] ^= 1 << rng.integers(8)
    return bytes(out)


def change_bytes(file: bytes, rng: Rng, _: list[bytes]) -> bytes:
    out = bytearray(file)
    at = int(rng.integers(len(out)))
    run = out[at : at + int(rng.integers(1, 64))]
    out[at : at + len(run)] = rng.bytes(len(run))
    return bytes(out)


def truncate(file: bytes, rng: Rng, _: list[bytes]) -> bytes:
    return file[: rng.integers(len(file))]


def cut_out(file: bytes, rng: Rng, _: list[bytes]) -> bytes:
    a, b = sorted(rng.integers(0, len(file) + 1, 2))
    return file[:a] + file[b:]


def append(file: bytes, rng: Rng, _: list[bytes]) -> bytes:
    return file + (bytes if rng.random() < 0.5 else rng.bytes)(int(rng.integers(1, 200)))


def splice(file: bytes, rng: Rng, files: list[bytes]) -> bytes:
    """The head of one file and the tail of another one, or one of its blocks inside of it."""
    other = files[rng.integers(len(files))]
    if rng.random() < 0.5:
        return file[: rng.integers(len(file))] + other[rng.integers(len(other)) :]
    size = int(rng.integers(1, 256))
    at, source = (int(rng.integers(max(1, len(f) - size))) for f in (file, other))
    return file[:at] + other[source : source + size] + file[at + size :]


def forge(file: bytes, rng: Rng, _: list[bytes]) -> bytes:
    """Change words of the index (and sometimes weights), then make all hashes right."""
    index_size = struct.unpack_from("<Q", file, len(file) - TRAILER + 8)[0]
    out = bytearray(file)
    for _i in range(rng.integers(1, 4)):
        _change_word(out, index_size, rng)
    if rng.random() < 0.2 and index_size < len(out) - TRAILER:
        out[rng.integers(index_size, len(out) - TRAILER)] = rng.integers(256)
    return _with_hashes(file, out, index_size)


PLAIN: list[Mutation] = [flip_bits, change_bytes, truncate, cut_out, append, splice]


def _change_word(out: bytearray, index_size: int, rng: Rng) -> None:
    words = index_size // 4
    at = 4 * int(rng.integers(words))
    (word,) = struct.unpack_from("<I", out, at)
    (other,) = struct.unpack_from("<I", out, 4 * int(rng.integers(words)))
    special = (0, 1, 2, 7, 8, 9, 2**30, 2**31 - 1, 2**31, 2**31 + 1, 2**31 + 16, 2**32 - 1)
    choices = (
        word + 1,
        word - 1,
        other,
        int(rng.choice(special)),
        word ^ 1 << int(rng.integers(32)),
        int(rng.integers(2**32)),
        int(rng.integers(300)),
    )
    struct.pack_into("<I", out, at, choices[rng.integers(len(choices))] % 2**32)


def _with_hashes(file: bytes, out: bytearray, index_size: int) -> bytes:
    for offset, size, digest in segment_rows(file[:index_size]):
        at = bytes(out[:index_size]).find(digest)
        if at >= 0:
            out[at : at + 32] = hashlib.sha256(out[offset : offset + size]).digest()
    return with_hashes(bytes(out))


def outcome(file: bytes) -> str:
    """What becomes of a file: refused, ran, or failed in some entry."""
    try:
        session = lite.load(file, threads=1, timeout_s=SECONDS_EACH / 2, **LIMITS)
    except lite.LiteError as error:
        return _one_line("refused", error)
    found = "ran"
    for entry in session.entries:
        try:
            session.run(ones(session, entry), entry)
            session.to_bytes()
        except lite.LiteError as error:
            found = _one_line("failed", error)
    return found


def _one_line(found: str, error: lite.LiteError) -> str:
    return found if str(error).isprintable() else f"{found} with {str(error)!r}"


def ones(session: lite.Session, entry: str) -> dict[str, np.ndarray]:
    """Inputs of an entry at its present sizes, of ones; single ones where that would be large."""
    arrays = {}
    shapes = session.input_shapes(entry)
    for info, shape in zip(session.inputs(entry), shapes, strict=True):
        small = all(d >= 0 for d in shape) and np.prod(shape, dtype=float) < 1e6
        arrays[info.name] = np.ones(shape if small else (1,) * len(shape), info.dtype)
    return arrays


def attack(file: bytes, files: list[bytes]) -> str:
    """What becomes of a mutated file, in time: else the process ends."""
    signal.alarm(SECONDS_EACH)
    found = "same" if file in files else outcome(file)
    signal.alarm(0)
    return found


def structured(each: int, seed: int, files: list[bytes], counts: Counter[str]) -> list[str]:
    """`each` forgeries of every one of ten files; those that ran and may not have."""
    silent = []
    for number in range(each * MODELS):
        rng = np.random.default_rng([seed, 1, number])
        forgery = FORGERIES[rng.integers(len(FORGERIES))]
        mutated = forgery(files[number % MODELS], rng)
        if mutated is None:
            counts["structured without"] += 1
            continue
        found = attack(mutated, files)
        counts[f"structured {forgery.__name__} {found}"] += 1
        if forgery.__name__ in NEVER and found not in ("refused", "same"):
            silent.append(f"{forgery.__name__} with seed {seed}, number {number}: {found}")
    return silent


def main(plain: int, forged: int, seed: int, each: int = 0) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))
    files = originals()
    counts: Counter[str] = Counter()
    silent = []
    for number in range(plain + forged):
        rng = np.random.default_rng([seed, number])
        file = files[rng.integers(len(files))]
        mutation = PLAIN[rng.integers(len(PLAIN))] if number < plain else forge
        mutated = mutation(file, rng, files)
        found = attack(mutated, files)
        kind = "plain" if number < plain else "forged"
        counts[f"{kind} {found}"] += 1
        if kind == "plain" and found not in ("refused", "same"):
            silent.append(f"{mutation.__name__} with seed {seed}, number {number}")
    silent += structured(each, seed, files, counts)
    print(json.dumps({"counts": counts, "silent": silent}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
