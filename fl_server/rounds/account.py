"""What the releases of private tasks cost: asked before a round begins, and kept before anything of
it can be seen."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sqlalchemy import Connection

from fl_server.distributed import Distributed
from fl_server.errors import LedgerDamaged, RoundFailed
from fl_server.plan.coordinates import Doubles
from fl_server.rounds import record
from fl_server.rounds.live import LiveRound
from fl_server.secagg import labels
from fl_server.secagg.keys import RandomBytes, hashed
from fl_server.storage.forest import Forest, Trees
from fl_server.storage.ledger import Ledger, keep_hash, kept_hash
from fl_server.storage.store import Store
from fl_server.tasks import Task, Tasks
from fl_server.tree import Tree, leaf_noise

_log = logging.getLogger(__name__)


class Account:
    """The ledgers of all tasks, which lie beside the database."""

    def __init__(self, store: Store, tasks: Tasks, random: RandomBytes) -> None:
        self._store = store
        self._tasks = tasks
        self._random = random

    def adopt(self) -> None:
        """Take over the ledgers of a server that kept no hashes, once."""
        with self._store.begin() as db:
            for task in self._tasks.all(db):
                if task.settings.privacy is None or kept_hash(db, task.name):
                    continue
                try:
                    last = self._ledger(task).adopt()
                except LedgerDamaged as error:  # which ends the task when a round is opened
                    _log.error("task %s: %s", task.name, error)
                else:
                    if last:
                        keep_hash(db, task.name, last)

    def overspent(self, db: Connection, task: Task) -> str:
        """Why the task's privacy budget has no round left, empty if it has.

        raises LedgerDamaged
        """
        privacy = task.settings.privacy
        if privacy is None or privacy.allows_after(self._noises(db, task)):
            return ""
        return f"another round would spend more than epsilon {privacy.epsilon:g}"

    def may_reveal(self, db: Connection, task: Task, live: LiveRound) -> str:
        """Why devices may not reveal what takes the masks off, empty if they may.

        From then on the server can see a sum in which there is the noise of devices alone, whatever
        becomes of the round: it is on the disk when this returns, of the survivors that there are.
        raises LedgerDamaged
        """
        privacy = task.settings.privacy
        if not isinstance(privacy, Distributed):
            return ""
        survivors, cohort = live.survivors, live.cohort
        listed = hashed(labels.SURVIVOR_SET, cohort.id, *map(cohort.bitmap, survivors))
        what, ledger = f"round {live.number} {listed.hex()}", self._ledger(task)
        why = self.overspent(db, task)
        if kept := ledger.hash_of(what):  # of a server that ended before its transaction did
            keep_hash(db, task.name, kept)
            return ""
        if why:
            return why
        least = min(len(part) for part in survivors)
        keep_hash(db, task.name, ledger.add(privacy.released(live.encoding, least), what))
        return ""

    def barred(self, db: Connection, task: Task) -> set[int]:
        """Who may be in no round before the next tree begins, or in none any more.

        raises LedgerDamaged
        """
        privacy = task.settings.privacy
        if not isinstance(privacy, Tree):
            return set()
        trees = self._forest(task, privacy).at(len(self._noises(db, task)))
        return trees.members | _too_often(trees, privacy)

    def leaf(
        self, db: Connection, task: Task, live: LiveRound, who: Sequence[int]
    ) -> Doubles | None:
        """The noise of the leaf that a round is, None without a tree; who is in the leaf is on the
        disk when this returns.     raises LedgerDamaged, RoundFailed"""
        privacy = task.settings.privacy
        if not isinstance(privacy, Tree):
            return None
        forest = self._forest(task, privacy)
        trees = forest.at(len(self._noises(db, task)))
        if twice := (trees.members | _too_often(trees, privacy)) & set(who):
            names = ", ".join(map(str, sorted(twice)[:5]))
            raise RoundFailed(f"clients {names} have been in this tree before, or in too many")
        forest.grow(trees, who, self._random)
        keys = [leaf.key for leaf in trees.leaves]
        return privacy.unit * leaf_noise(keys, live.encoding.length)

    def may_release(self, db: Connection, task: Task) -> str:
        """Why the sum of a round may not be shown, empty if it may.     raises LedgerDamaged"""
        # The database may have been put back since the round was opened.
        is_kept = isinstance(task.settings.privacy, Distributed)
        return "" if is_kept else self.overspent(db, task)

    def keep(self, db: Connection, task: Task, what: str) -> None:
        """Have a release on the disk when this returns.     raises LedgerDamaged"""
        privacy = task.settings.privacy
        if privacy is not None and not isinstance(privacy, Distributed):
            keep_hash(db, task.name, self._ledger(task).add(privacy.release, what))

    def spent(self, task: Task) -> dict[str, float] | None:
        """What the task's releases have cost, None without differential privacy or a ledger that
        can be read."""
        privacy = task.settings.privacy
        if privacy is None:
            return None
        try:
            noises = self._ledger(task).noises()
        except LedgerDamaged as error:
            _log.error("task %s: %s", task.name, error)
            return None
        return {"epsilon": privacy.spent(noises), "delta": privacy.delta, "rounds": len(noises)}

    def _noises(self, db: Connection, task: Task) -> list[float]:
        released, last = record.finished(db, task.name), kept_hash(db, task.name)
        return self._ledger(task).noises(released, last)

    def _forest(self, task: Task, privacy: Tree) -> Forest:
        path = self._store.ledger_path(task.name)
        return Forest(path.with_name(f"{path.name}.trees"), privacy.rounds)

    def _ledger(self, task: Task) -> Ledger:
        return Ledger(self._store.ledger_path(task.name))


def _too_often(trees: Trees, privacy: Tree) -> set[int]:
    most = privacy.participations
    return {client for client, count in trees.earlier.items() if most and count >= most}
