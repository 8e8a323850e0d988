"""What becomes of a round's sum: the next weights, and the clip norm that follows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from fl_server.plan.coordinates import Doubles
from fl_server.rounds import record
from fl_server.rounds.live import LiveRound
from fl_server.secagg.cohort import Sum
from fl_server.secagg.encode import Floats, Mean
from fl_server.secagg.keys import RandomBytes
from fl_server.storage.weights import Version, Weights
from fl_server.strategy.buffered import staleness_weight
from fl_server.strategy.robust import combine
from fl_server.tasks import Task


@dataclass(frozen=True)
class Outcome:
    """weights float32 [d], the strategy's moments float32 [rows, d], and the round's figures"""

    weights: Floats
    moments: Floats
    summary: dict[str, Any]


def outcome_of(
    db: Connection,
    task: Task,
    live: LiveRound,
    total: Sum,
    weights: Weights,
    random: RandomBytes,
    leaf: Doubles | None = None,
) -> Outcome:
    """What the sum of a round makes of the newest weights, with the task's noise in it

    leaf: that noise, where it is of a tree, over the deviation of one round's (tree.py)
    raises RoundFailed
    """
    settings, mean = task.settings, total.mean
    if settings.privacy is not None:
        params = total.totals[0].session.params  # of the one shard: task_checks
        privacy = settings.privacy
        mean = (
            privacy.noisy(mean, params, random)
            if leaf is None
            else privacy.with_noise(mean, params, leaf)
        )
    behind = weights.staleness(db, task.name, live.weights)
    before, strategy = weights.latest(task.name, db), settings.make_strategy()
    clip = _next_clip(db, live, total, before, random)
    values, moments = weights.values(before), weights.moments(before)
    delta = _combined(live, total, mean, len(values))
    mean = replace(mean, delta=delta * staleness_weight(behind))
    after, moments = strategy.apply(
        values, mean, strategy.start(len(values)) if moments is None else moments
    )
    summary = record.summary(db, live, mean, total) | clip
    if settings.max_staleness:
        summary["staleness"] = behind
    return Outcome(after, moments, summary)


def _next_clip(
    db: Connection, live: LiveRound, total: Sum, before: Version, random: RandomBytes
) -> dict[str, float]:
    """The clip norm that the devices had and that of the next round, where it follows them

    before: the newest weights
    """
    settings, used = live.task, live.encoding.clip_norm
    if settings.adaptive_clip is None:
        return {}
    # A count that is none is of a shard with a device that does not play fair.
    fair = [part for part in total.means if 0 <= part.within_clip <= part.clients]
    within, clients = float(sum(part.within_clip for part in fair)), sum(p.clients for p in fair)
    noise = 0.0
    if settings.privacy is not None:  # of the one shard: task_checks
        params, noise = total.totals[0].session.params, settings.privacy.count_noise
        clients = total.mean.clients
        within = settings.privacy.noisy_count(total.mean, params, random)
    # A buffer's norm may be an old one: what it led to since is what moves on.
    newest = record.next_clip_norm(db, live.context.task, before.round) or used
    after = settings.adaptive_clip.after(newest, within, clients, noise)
    return {"clip_norm": used, "next_clip_norm": after}


def _combined(live: LiveRound, total: Sum, mean: Mean, length: int) -> Doubles:
    """What is made of the sums, in the coordinates of the weights.     raises RoundFailed"""
    settings, seed = live.task, live.plan.seed(live.context)
    if settings.rule == "mean":
        return live.plan.unpack(mean.delta, length, seed)
    each = [live.plan.unpack(part.delta, length, seed) for part in total.means]
    return combine(settings.rule, settings.hostile, each, total.missing)
