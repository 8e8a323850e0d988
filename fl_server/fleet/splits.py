"""Which examples each device has: alike, by skewed labels, or by the people they come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fl_server.errors import SettingsError

Rows: TypeAlias = npt.NDArray[np.int64]
Split: TypeAlias = "Callable[[Labels, int, np.random.Generator], list[Rows]]"

FORMS = "iid, dirichlet:ALPHA, labels:K or user"
_DRAWS = 100


@dataclass(frozen=True)
class Labels:
    """label: integers [n], the class of each example · user: [n], whose it is, where that is known

    least: the fewest examples that a device may have
    """

    label: npt.NDArray[Any]
    user: npt.NDArray[Any] | None = None
    least: int = 10

    def __post_init__(self) -> None:
        if self.label.ndim != 1 or not np.issubdtype(self.label.dtype, np.integer):
            got = f"{self.label.dtype}{list(self.label.shape)}"
            raise SettingsError(f"label is {got}, want a whole number for each example")
        if self.user is not None and self.user.shape != self.label.shape:
            got = f"{list(self.user.shape)} users"
            raise SettingsError(f"{got} for {list(self.label.shape)} labels, want one for each")


def split_of(text: str) -> Split:
    """The split that a text such as dirichlet:0.5 names.     raises SettingsError"""
    name, _, number = text.partition(":")
    try:
        if name == "iid" and not number:
            return iid
        if name == "user" and not number:
            return by_user
        if name == "dirichlet" and 0 < (alpha := float(number)) < np.inf:
            return lambda labels, devices, rng: dirichlet(labels, devices, rng, alpha)
        if name == "labels" and (count := int(number)) > 0:
            return lambda labels, devices, rng: few_labels(labels, devices, rng, count)
    except ValueError:
        pass
    raise SettingsError(f"split {text!r}: want {FORMS}, with a number above 0")


def iid(labels: Labels, devices: int, rng: np.random.Generator) -> list[Rows]:
    """Examples at random, as many for each device, give or take one.     raises SettingsError"""
    order = rng.permutation(len(labels.label))
    return _checked([np.sort(part) for part in np.array_split(order, devices)], labels)


def dirichlet(labels: Labels, devices: int, rng: np.random.Generator, alpha: float) -> list[Rows]:
    """Each class divided in proportions drawn from Dir(alpha), where devices that have their equal
    share of all examples get no more; drawn again while one has too few.     raises SettingsError

    Yurochkin 2019, as Li 2022 ("Federated learning on non-IID data silos") has it.
    """
    total = len(labels.label)
    for _ in range(_DRAWS):
        parts: list[list[Rows]] = [[] for _ in range(devices)]
        sizes = np.zeros(devices)
        for kind in np.unique(labels.label):
            rows = rng.permutation(np.flatnonzero(labels.label == kind))
            shares = rng.dirichlet(np.full(devices, alpha)) * (sizes < total / devices)
            if not shares.sum() > 0:
                break  # of a tiny alpha: all of the class would go to those who are full
            ends = (np.cumsum(shares / shares.sum()) * len(rows)).astype(int)[:-1]
            for device, part in enumerate(np.split(rows, ends)):
                parts[device].append(part)
                sizes[device] += len(part)
        if sizes.sum() == total and sizes.min() >= labels.least:
            return [np.sort(np.concatenate(part)) for part in parts]
    raise SettingsError(
        f"dirichlet:{alpha:g} left one of {devices} devices with fewer than {labels.least} of "
        f"{total} examples {_DRAWS} times; want a larger ALPHA or fewer devices"
    )


def few_labels(labels: Labels, devices: int, rng: np.random.Generator, count: int) -> list[Rows]:
    """Devices with `count` classes each: the first goes round, the others are drawn; the examples
    of a class are divided alike among those who have it (Li 2022, #C = k).  raises SettingsError"""
    kinds = np.unique(labels.label)
    if count > len(kinds) or devices < len(kinds):
        raise SettingsError(
            f"labels:{count} of {len(kinds)} classes on {devices} devices; want at most as many "
            "labels as classes, and at least as many devices"
        )
    owners: list[list[int]] = [[] for _ in kinds]
    for device in range(devices):
        first = device % len(kinds)
        others = np.delete(np.arange(len(kinds)), first)
        for kind in [first, *rng.choice(others, count - 1, replace=False)]:
            owners[kind].append(device)
    parts: list[list[Rows]] = [[] for _ in range(devices)]
    for kind, having in zip(kinds, owners, strict=True):
        rows = rng.permutation(np.flatnonzero(labels.label == kind))
        for device, part in zip(having, np.array_split(rows, len(having)), strict=True):
            parts[device].append(part)
    return _checked([np.sort(np.concatenate(part)) for part in parts], labels)


def by_user(labels: Labels, devices: int, rng: np.random.Generator) -> list[Rows]:
    """A device for each of so many users, drawn from those with enough examples.

    raises SettingsError
    """
    if labels.user is None:
        raise SettingsError("split user: the data have no array `user`")
    names, counts = np.unique(labels.user, return_counts=True)
    enough = names[counts >= labels.least]
    if len(enough) < devices:
        raise SettingsError(
            f"{len(enough)} users have {labels.least} examples or more, want {devices}, the devices"
        )
    chosen = np.sort(rng.permutation(len(enough))[:devices])
    return [np.flatnonzero(labels.user == enough[i]) for i in chosen]


def _checked(parts: list[Rows], labels: Labels) -> list[Rows]:
    """raises SettingsError"""
    smallest = min(len(part) for part in parts)
    if smallest < labels.least:
        raise SettingsError(
            f"{len(labels.label)} examples leave {smallest} for one of {len(parts)} devices, "
            f"want {labels.least} or more"
        )
    return parts
