"""How a server turns the survivors' mean update into the next global weights."""

from __future__ import annotations

from collections.abc import Callable

from fl_server.strategy.adaptive import FedAdagrad, FedAdam, FedYogi
from fl_server.strategy.average import FedAvg
from fl_server.strategy.base import Strategy
from fl_server.strategy.momentum import FedAvgM
from fl_server.strategy.scaffold import Scaffold

# By the names of a task's setting `strategy`; what each is made with are settings, too.
STRATEGIES: dict[str, Callable[..., Strategy]] = {
    "fedavg": FedAvg,
    "fedavgm": FedAvgM,
    "fedadagrad": FedAdagrad,
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
    "scaffold": Scaffold,
}
