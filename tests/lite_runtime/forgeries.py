"""Model files with one kind of lie each, their hashes right: sizes, places, indices, attributes.

Each function takes a file and a random generator and gives the forged file, or None where the file
has nothing of the kind. Those in `NEVER` say what no file may: a reader must refuse every one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from ir.op import OPS
from tests.lite_runtime.forge import Forger

Rng = np.random.Generator
Forgery = Callable[[bytes, Rng], bytes | None]
HUGE = (2**31 - 1, 2**30, 2**29 + 1, 65536, 46341, 2**24)
ABSURD = (-1, -(2**30), 2**31 - 1, 2**30, 0, 3, 255, -2, 1000, -(2**31), -(2**31) + 16)
BY_CODE = {op.code: op for op in OPS.values()}
OFFSET = 12  # of the field of that name in the row of a weight


def huge_size(file: bytes, rng: Rng) -> bytes | None:
    """A size of a value or of a weight in the pool becomes far too large."""
    forger = Forger(file)
    places = [
        forger.pool(row.Shape() + k)
        for entry in _entries(forger)
        for row in (entry.Values(i) for i in range(entry.ValuesLength()))
        for k in range(row.Rank())
    ]
    weights = [forger.index.Weights(i) for i in range(forger.index.WeightsLength())]
    places += [forger.pool(w.Shape() + k) for w in weights for k in range(w.Rank())]
    return _changed(forger, places, HUGE, rng)


def cycle(file: bytes, rng: Rng) -> bytes | None:
    """A node reads its own result, or that of a later node of its graph."""
    forger = Forger(file)
    found = []
    weights = forger.index.WeightsLength()
    for entry in _entries(forger):
        results = weights + entry.InputsLength()
        for i in range(entry.NodesLength()):
            node = entry.Nodes(i)
            behind = node.Ids() + node.Inputs()
            own = [forger.index.Pool(behind + k) for k in range(node.Outputs())]
            fresh = [o for o in own if o >= results]
            last = weights + entry.ValuesLength() - 1
            if node.Inputs() and fresh:
                at = forger.pool(node.Ids() + int(rng.integers(node.Inputs())))
                found.append((at, int(rng.integers(fresh[0], last + 1))))
    if not found:
        return None
    at, value = found[rng.integers(len(found))]
    return forger.forged(at, "i", value)


def wrong_index(file: bytes, rng: Rng) -> bytes | None:
    """An id, the output of an entry, or a row of the pool that there is not."""
    forger = Forger(file)
    rooms: list[tuple[int, int]] = []  # where a number lies, and what it must be below
    weights = forger.index.WeightsLength()
    for entry in _entries(forger):
        ids = weights + entry.ValuesLength()
        for i in range(entry.NodesLength()):
            node = entry.Nodes(i)
            first = node.Ids()
            count = node.Inputs() + node.Outputs()
            rooms += [(forger.pool(first + k), ids) for k in range(count)]
        table = entry._tab
        outputs = range(entry.OutputsLength())
        rooms += [(table.Vector(table.Offset(16)) + 4 * k, ids) for k in outputs]
    if not rooms:
        return None
    at, below = rooms[rng.integers(len(rooms))]
    value = (below, below + 1, 2**31 - 1, 2**30, -2, -(2**31))[rng.integers(6)]
    return forger.forged(at, "i", value)


def overlapping_segments(file: bytes, rng: Rng) -> bytes | None:
    """A segment starts or ends where another one, the index or the trailer lies."""
    forger = Forger(file)
    count = forger.index.SegmentsLength()
    if count == 0:
        return None
    at = forger.segment(int(rng.integers(count)))
    field = at + 8 * int(rng.integers(2))  # its offset, its size
    (old,) = struct.unpack_from("<Q", file, field)
    new = (0, old - 64, old + 64, len(file), 2**63, 2**64 - 64, old // 2)[rng.integers(7)] % 2**64
    return None if new == old else forger.forged(field, "Q", new)


def overlapping_weights(file: bytes, rng: Rng) -> bytes | None:
    """Two weights of a segment lie on each other: both have the place of the first."""
    forger = Forger(file)
    rows = [forger.weight(i) for i in range(forger.index.WeightsLength())]
    if len(rows) < 2:
        return None
    a, b = rng.choice(len(rows), 2, replace=False)
    first, second = (forger.index.Weights(int(i)) for i in (a, b))
    sizes = [forger.index.Pool(w.Shape() + k) for w in (first, second) for k in range(w.Rank())]
    if first.Segment() != second.Segment() or 0 in sizes:
        return None
    return forger.forged(rows[b] + OFFSET, "I", first.Offset())


def absurd_attribute(file: bytes, rng: Rng) -> bytes | None:
    """A word of a node's attributes becomes a number that nobody would write."""
    forger = Forger(file)
    places = []
    for entry in _entries(forger):
        for i in range(entry.NodesLength()):
            node = entry.Nodes(i)
            words = len(BY_CODE[node.Op()].attrs)
            places += [forger.pool(node.Attrs() + k) for k in range(words)]
    return _changed(forger, places, ABSURD, rng)


def wrong_operator(file: bytes, rng: Rng) -> bytes | None:
    """A node is of another operator, or of one that there is not."""
    forger = Forger(file)
    entries = [e for e in _entries(forger) if e.NodesLength()]
    if not entries:
        return None
    entry = entries[rng.integers(len(entries))]
    node = entry.Nodes(int(rng.integers(entry.NodesLength())))
    codes = [*BY_CODE, 0, 65535, 999]
    return forger.forged(node._tab.Pos, "H", int(codes[rng.integers(len(codes))]))


FORGERIES: list[Forgery] = [
    huge_size, cycle, wrong_index, overlapping_segments, overlapping_weights, absurd_attribute,
    wrong_operator,
]  # fmt: skip
NEVER = {f.__name__ for f in (cycle, wrong_index, overlapping_segments, overlapping_weights)}


def _entries(forger: Forger) -> list:
    return [forger.index.Entries(i) for i in range(forger.index.EntriesLength())]


def _changed(forger: Forger, places: list[int], values: tuple[int, ...], rng: Rng) -> bytes | None:
    if not places:
        return None
    at = places[rng.integers(len(places))]
    return forger.forged(at, "i", values[rng.integers(len(values))])
