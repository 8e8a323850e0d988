"""Damage TFLite files at random and convert what is left: one line of error, or a model.

    python -m tests.converter.tflite_mutations --count 5000 [FILE.tflite …]

Each attempt runs with a limit of time and of memory; anything but a model or a ConvertError of one
line ends the run with status 1 and leaves the file beside the report.
"""

from __future__ import annotations

import argparse
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

import numpy as np

from converter import ConvertError, convert
from tests.converter.tflite_cases import FLOAT
from tests.converter.tflite_int_cases import INT8, INT16, UINT8

MOST_BYTES = 6 << 30  # of memory that an attempt may map, libraries included
MOST_S = 30
WORDS = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32 - 2, 2**16, 2**20, 255, 4, 100)


class TooSlow(Exception):
    """An attempt took longer than MOST_S."""


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """The file with a few bytes changed, a word made extreme, a part cut out, doubled or moved; or,
    three times of four, with one to three of its small numbers (sizes, options, places of tensors)
    changed, which leaves most files well-formed."""
    out = bytearray(data)
    if rng.random() < 0.75:
        words = np.frombuffer(data[: len(data) // 4 * 4], "<u4")
        small = np.flatnonzero((words < 256) | (words > 2**32 - 256))
        for i in rng.choice(small, int(rng.integers(1, 4))):
            word = int(rng.choice(WORDS) if rng.random() < 0.3 else rng.integers(0, 16))
            out[4 * i : 4 * i + 4] = word.to_bytes(4, "little")
        return bytes(out)
    for _ in range(int(rng.integers(1, 5))):
        if len(out) < 16:
            break
        at = int(rng.integers(0, len(out) - 8))
        kind = int(rng.integers(0, 7))
        if kind <= 1:
            out[at] = int(rng.integers(0, 256))
        elif kind == 2:
            out[at] ^= 1 << int(rng.integers(0, 8))
        elif kind == 3:
            word = int(rng.choice([*WORDS, len(out)]))
            at -= at % 4
            out[at : at + 4] = word.to_bytes(4, "little")
        elif kind == 4:
            del out[at : at + int(rng.integers(1, 64))]
        elif kind == 5:
            size = int(rng.integers(4, 64))
            to = int(rng.integers(0, len(out) - 8))
            out[to : to + size] = out[at : at + size]
        else:
            del out[at:]
    return bytes(out)


def attempts(
    sources: Sequence[bytes], count: int, seed: int = 0
) -> Iterator[tuple[bytes, Exception | None]]:
    """What became of each of `count` damaged files: nothing but a ConvertError is expected."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        for i in range(count):
            data = mutated(sources[i % len(sources)], rng)
            found: Exception | None = None
            signal.alarm(MOST_S)
            try:
                convert(data, Path(folder) / "m.ms", kind="tflite", check=1, tol=float("inf"))
            except Exception as e:
                found = e
            finally:
                signal.alarm(0)
            yield data, found


def is_expected(found: Exception | None) -> bool:
    return found is None or (isinstance(found, ConvertError) and "\n" not in str(found))


def _stop(*_: int | FrameType | None) -> None:
    raise TooSlow(f"more than {MOST_S} s")


def sources() -> list[bytes]:
    """The small models of the tests."""
    return [d for family in (FLOAT, INT8, UINT8, INT16) for d in family.values()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    signal.signal(signal.SIGALRM, _stop)
    given = [f.read_bytes() for f in args.files] or sources()
    counts: Counter[str] = Counter()
    start, bad = time.perf_counter(), 0
    for i, (data, found) in enumerate(attempts(given, args.count, args.seed)):
        counts["converted" if found is None else type(found).__name__] += 1
        if not is_expected(found):
            bad += 1
            Path(f"mutation_{args.seed}_{i}.tflite").write_bytes(data)
            print(f"attempt {i}: {type(found).__name__}: {found}", file=sys.stderr)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    texts = ", ".join(f"{n} {kind}" for kind, n in counts.most_common())
    print(f"{args.count} files: {texts}; {bad} not as they should be; "
          f"{time.perf_counter() - start:.0f} s, {peak_mib} MiB at most")  # fmt: skip
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
