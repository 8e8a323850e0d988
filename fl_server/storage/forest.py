"""The trees of a task's noise, in a file beside its ledger: who was in which leaf, and what its
noise follows from. A database that is put back changes nothing of either."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fl_server.errors import LedgerDamaged
from fl_server.secagg.keys import RandomBytes
from fl_server.secagg.mask import KEY_SIZE
from fl_server.storage.files import write_file


@dataclass(frozen=True)
class Leaf:
    """key: 16 secret bytes for the noise of the node that it ends · who: the devices in it"""

    key: bytes = field(repr=False)
    who: tuple[int, ...]


@dataclass
class Trees:
    """tree: the number of the newest · leaves: of that one · earlier: in how many trees before it
    each device was"""

    tree: int = 0
    leaves: list[Leaf] = field(default_factory=list)
    earlier: Counter[int] = field(default_factory=Counter)

    @property
    def members(self) -> set[int]:
        """Who is in the newest tree."""
        return {client for leaf in self.leaves for client in leaf.who}


class Forest:
    """The file of one task. It is written before the ledger has a leaf's line: of leaves that are
    not in the ledger nothing was seen, and another round takes their place. Its noise is drawn anew
    then, and so is all that comes after a folder was put back: no two sums ever have the same."""

    def __init__(self, path: Path, rounds: int) -> None:
        self._path = path
        self._rounds = rounds

    def at(self, released: int) -> Trees:
        """The trees as they are when so many leaves are in the ledger.     raises LedgerDamaged"""
        if not released:
            return Trees()
        kept, (tree, leaf) = self._read(), divmod(released, self._rounds)
        if kept.tree == tree - 1 and len(kept.leaves) == self._rounds:  # a new one begins
            kept.earlier.update(kept.members)
            kept.tree, kept.leaves = tree, []
        if kept.tree != tree or len(kept.leaves) < leaf:
            found = f"leaf {len(kept.leaves)} of tree {kept.tree}"
            raise LedgerDamaged(f"{self._path}: {found}, the ledger has {leaf} of tree {tree}")
        kept.leaves = kept.leaves[:leaf]
        return kept

    def grow(self, trees: Trees, who: Iterable[int], random: RandomBytes) -> None:
        """Add a leaf, which is on the disk when this returns."""
        trees.leaves.append(Leaf(random(KEY_SIZE), tuple(sorted(who))))
        values = {
            "tree": trees.tree,
            "leaves": [[leaf.key.hex(), leaf.who] for leaf in trees.leaves],
            "earlier": sorted(trees.earlier.items()),
        }
        body = json.dumps(values)
        write_file(self._path, f"{body}\n{_hash(body)}\n".encode())

    def _read(self) -> Trees:
        try:
            body, kept = self._path.read_text().splitlines()
        except (OSError, ValueError) as error:
            raise LedgerDamaged(f"{self._path}: {error}") from None
        if kept != _hash(body):
            raise LedgerDamaged(f"{self._path}: damaged, want a line and its hash")
        found: dict[str, Any] = json.loads(body)
        leaves = [Leaf(bytes.fromhex(key), tuple(who)) for key, who in found["leaves"]]
        return Trees(found["tree"], leaves, Counter(dict(found["earlier"])))


def _hash(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()
