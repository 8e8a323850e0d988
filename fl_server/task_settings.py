"""Settings of a task: what an operator gives, and what follows from it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from fl_server.clipping import AdaptiveClip
from fl_server.conditions import Conditions
from fl_server.distributed import Distributed
from fl_server.errors import SettingsError
from fl_server.plan.plan import Plan
from fl_server.privacy import LEAST_NOISE, Privacy
from fl_server.secagg.cohort import SHARD_SIZE, Layout
from fl_server.secagg.messages import MOST_CLIENTS
from fl_server.secagg.params import Encoding, least_quorum
from fl_server.secagg.policy import Policy
from fl_server.secagg.shamir import MOST_SHARES
from fl_server.settings import check_name
from fl_server.strategy import STRATEGIES
from fl_server.strategy.base import Strategy
from fl_server.tree import Tree

# Beside the noise of the sum: the count then costs a thirtieth more.
_COUNT_NOISE = 4.0
# Of a norm, a coordinate and a loss: squares and ratios of them stay numbers.
_LEAST_CLIP, _MOST_CLIP = 1e-12, 1e12


class TaskSettings(BaseModel):
    """A task: a model that one population trains for some rounds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
    population: str = Field(default="default", min_length=1, max_length=16)
    rounds: int = Field(default=1, ge=1, le=100_000)
    min_cohort: int = Field(default=20, ge=2, le=MOST_CLIENTS)
    target_cohort: int = Field(default=20, ge=2, le=MOST_CLIENTS)
    # A larger cohort is split into shards of this size at the most, whose sums are added; or it is
    # one session on a sparse graph (docs/protocol.md#large-cohorts says what that costs).
    shard_size: int = Field(default=SHARD_SIZE, ge=3, le=MOST_SHARES + 1)
    graph: Literal["shards", "sparse"] = "shards"
    max_failures: int = Field(default=10, ge=0, le=1_000_000)
    strategy: Literal["fedavg", "fedavgm", "fedadagrad", "fedadam", "fedyogi", "scaffold"] = (
        "fedavg"
    )
    # Of the strategy; what is None is the strategy's own default.
    learning_rate: float | None = Field(default=None, gt=0, le=100)
    momentum: float | None = Field(default=None, ge=0, lt=1)
    beta2: float | None = Field(default=None, ge=0, lt=1)
    tau: float | None = Field(default=None, gt=0, le=1)
    # Of SCAFFOLD: all devices that there are, and what changes of control variates are sent times.
    devices: int | None = Field(default=None, ge=2, lt=2**31)
    control_scale: float = Field(default=1.0, ge=1e-6, le=1e6)
    # What is made of the sums of shards, or of the updates of devices where there are no masks, so
    # many of which may be hostile.
    rule: Literal["mean", "median", "trimmed_mean", "krum", "multi_krum"] = "mean"
    hostile: int = Field(default=1, ge=0, le=MOST_CLIENTS)
    # Whether the server sees sums alone, or, of devices that allow it, each update.
    aggregation: Literal["secure", "unmasked"] = "secure"
    # Patterns of the names of weights that stay on devices, with commas between them.
    local: tuple[str, ...] = ()
    # The share of coordinates that devices send, others in each round; and whether the vector is
    # rotated at random before.
    kept: float = Field(default=1.0, gt=0, le=1)
    rotate: bool = False
    # Differential privacy, where there is noise: who adds it, how much, and the budget.
    noise: Literal["central", "tree", "distributed"] = "central"
    # Of noise in trees: the rounds of each, and how many of them a device may be in.
    tree_rounds: int | None = Field(default=None, ge=1, le=100_000)
    participations: int | None = Field(default=None, ge=1, le=100_000)
    noise_multiplier: float = Field(default=0.0, ge=0, le=1000)
    delta: float = Field(default=1e-5, gt=0, lt=1)
    epsilon: float | None = Field(default=None, gt=0)
    value_bits: int = Field(default=16, ge=2, le=32)
    max_weight: int = Field(default=1, ge=1, lt=2**31)
    clip_norm: float = Field(default=10.0, ge=_LEAST_CLIP, le=_MOST_CLIP)
    clip_value: float = Field(default=1.0, ge=_LEAST_CLIP, le=_MOST_CLIP)
    loss_cap: float = Field(default=10.0, ge=_LEAST_CLIP, le=_MOST_CLIP)
    # The clip norm follows this quantile of updates' norms; clip_value keeps its ratio to it. Where
    # there is noise, the count of updates within it has some of this deviation.
    clip_quantile: float | None = Field(default=None, gt=0, lt=1)
    clip_rate: float = Field(default=0.2, gt=0, le=2)
    clip_noise: float | None = Field(default=None, ge=LEAST_NOISE, le=1e6)
    join_s: float = Field(default=600.0, gt=0, le=7 * 86400)
    share_s: float = Field(default=30.0, gt=0, le=86400)
    vector_s: float = Field(default=120.0, gt=0, le=86400)
    agree_s: float = Field(default=30.0, gt=0, le=86400)
    reveal_s: float = Field(default=30.0, gt=0, le=86400)
    # What devices must say of themselves to be asked.
    needs_charging: bool = False
    needs_unmetered: bool = False
    needs_idle: bool = False
    min_battery: int = Field(default=0, ge=0, le=100)
    min_app_version: int = Field(default=0, ge=0, lt=2**31)
    # The share of devices that are asked beyond the target, whose vectors come too late.
    over_selection: float = Field(default=0.0, ge=0, le=1)
    # Above 0 rounds are buffers that fill whenever devices are done (FedBuff), and an update may
    # be of weights so many versions old.
    max_staleness: int = Field(default=0, ge=0, le=100_000)
    # What devices do: train, or measure how well the weights do on their data.
    kind: Literal["train", "evaluate"] = "train"
    # Whose task this is, the server's own tenant's if empty.
    tenant: str = ""

    @field_validator("strategy", mode="before")
    @classmethod
    def _of_tasks_before_there_were_others(cls, name: Any) -> Any:
        return "fedavg" if name == "average" else name

    @field_validator("local", mode="before")
    @classmethod
    def _of_one_text(cls, given: Any) -> Any:
        return tuple(filter(None, given.split(","))) if isinstance(given, str) else given

    @field_validator("local")
    @classmethod
    def _is_patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        if not all(pattern and pattern.isprintable() for pattern in patterns):
            raise PydanticCustomError("local", "patterns of names, in one line each")
        return patterns

    @field_validator("population", "tenant")
    @classmethod
    def _is_name(cls, name: str) -> str:
        try:
            if name:
                check_name("", name)
        except SettingsError:
            raise PydanticCustomError("name", "at most 64 bytes of text") from None
        return name

    @classmethod
    def checked(cls, **settings: Any) -> TaskSettings:
        """The settings of these fields.     raises SettingsError"""
        try:
            return cls(**settings)
        except ValidationError as error:
            raise SettingsError(problem(error.errors()[0])) from None

    def make_strategy(self) -> Strategy:
        """What turns a mean update into the next weights.     raises SettingsError"""
        names = ("learning_rate", "momentum", "beta2", "tau", "devices")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        make = STRATEGIES[self.strategy]
        takes = inspect.signature(make).parameters
        for name in given:
            if name not in takes:
                which = ", ".join(takes)
                raise SettingsError(f"{name} is set, but {self.strategy} takes {which} alone")
        return make(**given)

    @property
    def privacy(self) -> Privacy | None:
        """The noise in what the task releases, None without."""
        if not self.noise_multiplier:
            return None
        epsilon = math.inf if self.epsilon is None else self.epsilon
        count = math.inf
        if self.clip_quantile is not None:
            count = self.clip_noise or _COUNT_NOISE * self.noise_multiplier
        if self.noise == "distributed":
            given = self.noise_multiplier, self.delta, epsilon, count
            return Distributed(*given, self.hostile)
        if self.noise == "tree":
            given = self.noise_multiplier, self.delta, epsilon, count
            return Tree(*given, self.tree_rounds or Tree.rounds, self.participations or 0)
        return Privacy(self.noise_multiplier, self.delta, epsilon, count)

    @property
    def adaptive_clip(self) -> AdaptiveClip | None:
        """What the clip norm follows, None where it stays. It stays within what devices take."""
        if self.clip_quantile is None:
            return None
        most = min(Policy.clip_norm, Policy.clip_value * self.clip_norm / self.clip_value)
        most = max(most, self.clip_norm)
        return AdaptiveClip(self.clip_quantile, self.clip_rate, self.clip_norm, most)

    @property
    def selected(self) -> int:
        """The most devices in a cohort."""
        return math.ceil(self.target_cohort * (1 + self.over_selection))

    @property
    def layout(self) -> Layout:
        """How a cohort becomes sessions; noise of the server is made for one sum, and so for one of
        them."""
        sparse = self.graph == "sparse"
        one = sparse or (self.noise_multiplier > 0 and self.noise != "distributed")
        masked = self.aggregation == "secure"
        return Layout(MOST_SHARES + 1 if one else self.shard_size, sparse, masked)

    def suits(self, device: Conditions) -> bool:
        """Whether a device may be asked."""
        return (
            (bool(device.charging) or not self.needs_charging)
            and (bool(device.unmetered) or not self.needs_unmetered)
            and (bool(device.idle) or not self.needs_idle)
            and (device.battery or 0) >= self.min_battery
            and (device.app_version or 0) >= self.min_app_version
        )

    def plan(self, moments: bytes = b"", generation: int = 0) -> Plan:
        """What devices are asked for; moments: the digest of what the strategy keeps · generation:
        the version of the weights at which it began with nothing kept."""
        if self.kind == "evaluate":
            return Plan(local="\n".join(self.local), unmasked=int(self.aggregation == "unmasked"))
        plan = Plan(
            unmasked=int(self.aggregation == "unmasked"),
            local="\n".join(self.local),
            kept=self.kept,
            rotated=int(self.rotate),
        )
        if self.strategy != "scaffold":
            return plan
        scale = self.control_scale
        return replace(plan, control_scale=scale, controls=moments, generation=generation)

    def encoding(self, length: int, clip_norm: float | None = None) -> Encoding:
        """How an update of weights of `length` is encoded; an evaluation has metrics alone.

        clip_norm: of the round, where it is another than the first
        """
        norm = self.clip_norm if clip_norm is None else clip_norm
        made = Encoding(
            length=self.plan().sent(length) if self.kind == "train" else 0,
            value_bits=self.value_bits,
            max_weight=self.max_weight,
            clip_norm=norm,
            clip_value=self.clip_value * (norm / self.clip_norm),
            loss_cap=self.loss_cap,
        )
        if not isinstance(self.privacy, Distributed) or not made.length:
            return made
        return replace(made, noise=self.privacy.share(made, self.fewest))

    @property
    def fewest(self) -> int:
        """Of how many devices the sum of a session is at the least."""
        return least_quorum(self.layout.least_shard(self.min_cohort, self.selected))

    def stage_s(self, stage: str) -> float:
        """How long a stage may last."""
        seconds: float = {
            "advertise": self.join_s,
            "share": self.share_s,
            "vector": self.vector_s,
            "agree": self.agree_s,
            "reveal": self.reveal_s,
        }[stage]
        return seconds


def problem(error: Mapping[str, Any]) -> str:
    """One line for what pydantic found wrong in TaskSettings."""
    name = str(error["loc"][-1])
    if error["type"] == "extra_forbidden":
        return f"no setting {name!r}; there are {', '.join(TaskSettings.model_fields)}"
    wanted = error["msg"].removeprefix("Input should be ").replace("valid ", "")
    given = repr(error.get("input"))
    return f"setting {name} is {given if len(given) <= 80 else given[:80] + '…'}, want {wanted}"
