"""Every way in which clients can vanish from a round, and what must come of it.

PYTHONPATH=.:tests/fl_server python tests/fl_server/fl_patterns.py 6 7 8
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product

import numpy as np
from fl_people import encoding_of, members, play, updates_of

from fl_server.errors import RoundFailed
from fl_server.secagg.params import least_threshold
from fl_server.secagg.run import Stage

_PARTS = 50


def finished(clients: int, stages_of: Iterable[tuple[Stage, ...]]) -> int:
    """How many rounds gave their sum, exactly, of so many clients that stopped so; the others had
    to fail."""
    people, encoding = members(clients), encoding_of(3)
    updates = updates_of(people, encoding)
    ids = [m.id for m in people]
    return sum(
        check(people, updates, encoding, dict(zip(ids, stages, strict=True)))
        for stages in sorted(stages_of)
    )


def survivors_suffice(last: dict[int, Stage], clients: int) -> bool:
    """Whether enough remain at each stage to rebuild every secret: the rule, said anew."""
    needed = least_threshold(clients - 1) + 1
    present = [sum(stage >= s for stage in last.values()) for s in Stage]
    return all(count >= needed for count in present[Stage.SHARE : Stage.REVEAL]) and (
        rebuildable(last, needed - 1)
    )


def rebuildable(last: dict[int, Stage], threshold: int) -> bool:
    revealers = {i for i, stage in last.items() if stage == Stage.REVEAL}
    shared = {i for i, stage in last.items() if stage >= Stage.SHARE}
    return all(len(revealers - {i}) >= threshold for i in shared)


def check(people, updates, encoding, last) -> bool:
    """Whether the round finished; if it did, the sum was exact, and if not, it had to fail."""
    expected = survivors_suffice(last, len(people))
    try:
        played = play(people, updates, encoding, last)
    except RoundFailed:
        assert not expected
        return False
    assert expected
    assert set(played.total.survivors) == {i for i, s in last.items() if s >= Stage.VECTOR}
    np.testing.assert_array_equal(played.total.words.astype(np.uint64), played.plain)
    assert played.total.blamed == ()
    return True


def patterns(clients: int) -> set[tuple[Stage, ...]]:
    """All of them; those that differ only after the stage in which too few are left are one."""
    needed = least_threshold(clients - 1) + 1
    found = set()
    for stages in product(Stage, repeat=clients):
        present = {s: sum(stage >= s for stage in stages) for s in Stage}
        last = next((s for s in Stage if present[s] < needed), Stage.REVEAL)
        found.add(tuple(min(stage, last) for stage in stages))
    return found


def main(counts: list[int]) -> None:
    """Every pattern of so many clients, on all processors; one line for each count."""
    with ProcessPoolExecutor() as pool:
        for count in counts:
            found = sorted(patterns(count))
            parts = [found[i::_PARTS] for i in range(_PARTS)]
            exact = 0
            for done, ended in enumerate(pool.map(partial(finished, count), parts), 1):
                exact += ended
                print(f"{count} clients: {done} of {_PARTS} parts", file=sys.stderr)
            print(f"{count} clients: {len(found)} patterns, {exact} exact sums", flush=True)


if __name__ == "__main__":
    main([int(count) for count in sys.argv[1:]])
