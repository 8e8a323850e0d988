"""The gradient of 100 Newton steps in a loop that the data end: `python -m bench.newton`."""

from __future__ import annotations

import timeit

import numpy as np

from cloud import grad, jit
from ir.graph import Value

CALLS, REPEATS = 1000, 7


def root(a: Value, turns: Value) -> Value:
    """The square root of a, by Newton's method."""
    x = a
    while turns > 0:
        x = (x + a / x) / 2
        turns = turns - 1
    return x


def main() -> None:
    slope = jit(grad(root))
    arguments = np.float32(2), np.int32(100)
    found, exact = float(slope(*arguments)), 0.5 / np.sqrt(2)
    best = min(timeit.repeat(lambda: slope(*arguments), number=CALLS, repeat=REPEATS)) / CALLS
    print(f"d sqrt(2) = {found:.7f} (exact {exact:.7f}), {best * 1e6:.1f} us a call, tape and all")


if __name__ == "__main__":
    main()
