"""Whether the settings of a task fit each other, the ring and its privacy."""

from __future__ import annotations

import logging

from fl_server.distributed import Distributed
from fl_server.errors import EncodingMismatch, ModulusTooSmall, SettingsError
from fl_server.plan.plan import MOST_LOCAL_BYTES
from fl_server.secagg.messages import MOST_CLIENTS
from fl_server.secagg.policy import COHORT_FLOOR
from fl_server.strategy.robust import needed
from fl_server.task_settings import TaskSettings
from fl_server.tree import Tree

_log = logging.getLogger(__name__)


def check(task: TaskSettings, length: int) -> None:
    """Nothing, if rounds of weights of `length` can be made of these settings.

    raises SettingsError, MissingExtra
    """
    _check_cohort(task)
    for warning in warnings(task):
        _log.warning("task %s: %s", task.name, warning)
    task.make_strategy()
    _check_kind(task)
    _check_scaffold(task)
    _check_privacy(task, length)
    try:
        for clients in {task.min_cohort, task.selected}:
            largest = -(-clients // task.layout.shards(clients))
            task.layout.params(largest, task.encoding(length))
    except (EncodingMismatch, ModulusTooSmall) as error:
        raise SettingsError(str(error)) from None
    _check_selection(task, length)
    _check_rule(task)
    if sum(len(pattern.encode()) + 1 for pattern in task.local) > MOST_LOCAL_BYTES:
        raise SettingsError(f"local has more than {MOST_LOCAL_BYTES} bytes")


def warnings(task: TaskSettings) -> list[str]:
    """What these settings allow, and whoever makes the task should know."""
    found = []
    if task.graph == "sparse":
        found.append(
            "privacy on a sparse graph is a chance, for colluders drawn at random; "
            "docs/protocol.md#large-cohorts says what else to know"
        )
    least = task.layout.least_shard(task.min_cohort, task.selected)
    if least < COHORT_FLOOR:
        found.append(
            f"a sum may be over {least} devices: all that have not lowered their floor of "
            f"{COHORT_FLOOR} decline it; want a larger min_cohort or shard_size"
        )
    return found


def _check_cohort(task: TaskSettings) -> None:
    if task.target_cohort < task.min_cohort:
        raise SettingsError(
            f"target_cohort is {task.target_cohort}, below min_cohort {task.min_cohort}"
        )
    if task.selected > MOST_CLIENTS:
        most = f"want at most {MOST_CLIENTS}"
        raise SettingsError(f"{task.selected} devices would be selected, {most}")


def _check_kind(task: TaskSettings) -> None:
    if task.kind != "evaluate":
        return
    if task.noise_multiplier:
        raise SettingsError("an evaluation shows its metrics; want noise_multiplier 0")
    if task.max_staleness:
        raise SettingsError("an evaluation changes no weights; want max_staleness 0")
    if task.clip_quantile is not None:
        raise SettingsError("an evaluation has no clip norm, want no clip_quantile")


def _check_scaffold(task: TaskSettings) -> None:
    if task.strategy != "scaffold":
        return
    if task.max_weight != 1:
        raise SettingsError(f"max_weight is {task.max_weight}, want 1 with scaffold")
    if task.max_staleness:
        # The server's variate is the mean of the devices' where every sum counts whole.
        raise SettingsError(f"max_staleness is {task.max_staleness}, want 0 with scaffold")
    if task.kept < 1:
        # What is sent counts 1 / kept times, which control variates would not settle under.
        raise SettingsError(f"kept is {task.kept}, want 1 with scaffold")
    if task.rule != "mean" or task.noise_multiplier:
        # The server's variate would no longer be the mean of the devices'.
        given = f"rule is {task.rule}, noise_multiplier is {task.noise_multiplier:g}"
        raise SettingsError(f"{given}; want mean and 0 with scaffold")


def _check_rule(task: TaskSettings) -> None:
    """raises SettingsError"""
    if task.aggregation == "unmasked" and (task.graph == "sparse" or task.privacy):
        raise SettingsError("aggregation is unmasked, want no sparse graph and no noise with it")
    if task.rule == "mean":
        return
    if task.privacy or task.max_weight != 1:
        raise SettingsError(f"rule is {task.rule}, want no noise and max_weight 1 with it")
    masked, clients = task.aggregation == "secure", task.min_cohort
    sums = task.layout.shards(clients) if masked else clients
    if sums < (want := needed(task.rule, task.hostile)):
        what = "shards of the smallest cohort" if masked else "devices"
        raise SettingsError(
            f"{sums} {what}, {task.rule} against {task.hostile} hostile ones needs {want}"
        )


def _check_selection(task: TaskSettings, length: int) -> None:
    """raises SettingsError"""
    needed = task.layout.quorum(task.selected, task.encoding(length))
    if task.target_cohort < needed:
        raise SettingsError(
            f"over_selection is {task.over_selection}: {needed} of {task.selected} devices "
            f"must stay, target_cohort is {task.target_cohort}"
        )


def _check_privacy(task: TaskSettings, length: int) -> None:
    """raises SettingsError, MissingExtra"""
    if task.clip_noise is not None and (task.clip_quantile is None or task.privacy is None):
        raise SettingsError("clip_noise is set, want clip_quantile and noise_multiplier")
    if task.noise != "tree" and (task.tree_rounds or task.participations):
        raise SettingsError("tree_rounds or participations is set, want noise=tree with it")
    if task.privacy is None:
        if task.epsilon is not None or task.noise != "central":
            name = "noise" if task.epsilon is None else "epsilon"
            raise SettingsError(f"{name} is set, want a noise_multiplier above 0 with it")
        return
    if isinstance(task.privacy, Tree):
        _check_tree(task)
    if isinstance(task.privacy, Distributed):
        if task.clip_quantile is not None:
            raise SettingsError("clip_quantile is set, want none with noise that devices add")
    elif task.layout.shards(task.selected) > 1:
        raise SettingsError(
            f"the number of devices selected is {task.selected}, want at most "
            f"{task.layout.shard_size} where the server adds noise: it is made for one sum"
        )
    task.privacy.check(task.encoding(length), task.fewest)


def _check_tree(task: TaskSettings) -> None:
    """The noise of a round is taken back in later ones, of the same coordinates and clip."""
    for name, plain in (
        ("clip_quantile", None),
        ("max_staleness", 0),
        ("kept", 1),
        ("rotate", False),
    ):
        if (given := getattr(task, name)) != plain:
            raise SettingsError(f"{name} is {given}, want {plain} with noise in trees")
