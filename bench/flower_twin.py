"""Rounds of Flower's SecAgg+ workflow: PYTHON bench/flower_twin.py CLIENTS LENGTH ROUNDS

Runs in an environment of Flower's (`pip install "flwr[simulation]" psutil`), for `bench.federated
--flower PYTHON`. Clients train nothing: each gives the weights back with its own number added.
Messages go through Ray's memory and not over a network. All clients are neighbours, two thirds of
the shares are enough, and numbers have 16 bits. Prints a line of JSON for each round: seconds,
cpu_s of all processes, and up, the bytes of one client's messages; then one with the largest error
of the last mean.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"

import numpy as np
import psutil
from flwr.client import ClientApp, NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.common.serde import recorddict_to_proto
from flwr.server import LegacyContext, ServerApp, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.simulation import run_simulation

RANGE = 4.0  # of what is summed


class Adds(NumPyClient):
    """A client whose update is its number, of `clients`, in every coordinate."""

    def __init__(self, number: int, clients: int) -> None:
        self._update = number / clients

    def fit(self, parameters: list[Any], config: dict[str, Any]) -> Any:
        return [p + np.float32(self._update) for p in parameters], 1, {}


class Means(FedAvg):
    """Keeps the last mean."""

    mean: Any = None

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
        made = super().aggregate_fit(server_round, results, failures)
        self.mean = parameters_to_ndarrays(made[0])[0]
        # Each round begins from zeros, so that nothing grows out of the range.
        return ndarrays_to_parameters([np.zeros_like(self.mean)]), {}


def main(clients: int, length: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        strategy = Means(
            fraction_evaluate=0.0,
            min_fit_clients=clients,
            min_available_clients=clients,
            initial_parameters=ndarrays_to_parameters([np.zeros(length, np.float32)]),
        )
        run_simulation(
            server_app(strategy, rounds, Path(folder)),
            client_app(clients, Path(folder)),
            num_supernodes=clients,
            backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
        )
    want = (clients - 1) / 2 / clients
    print(json.dumps({"error": float(np.abs(strategy.mean - want).max())}), flush=True)


def server_app(strategy: FedAvg, rounds: int, folder: Path) -> ServerApp:
    app = ServerApp()

    @app.main()
    def run(grid: Any, context: Any) -> None:
        secure = SecAggPlusWorkflow(
            num_shares=1.0,
            reconstruction_threshold=2 / 3,
            max_weight=1.0,
            clipping_range=RANGE,
            quantization_range=2**16,
        )

        def timed(grid: Any, context: Any) -> None:
            size, cpu, start = uploaded(folder), cpu_seconds(), time.perf_counter()
            secure(grid, context)
            row = {"seconds": time.perf_counter() - start, "cpu_s": cpu_seconds() - cpu}
            row["up"] = (uploaded(folder) - size) / len(list(folder.iterdir()))
            print(json.dumps(row), flush=True)

        config = ServerConfig(num_rounds=rounds)
        DefaultWorkflow(fit_workflow=timed)(
            grid, LegacyContext(context=context, config=config, strategy=strategy)
        )

    return app


def client_app(clients: int, folder: Path) -> ClientApp:
    def weighed(message: Any, context: Any, following: Any) -> Any:
        """Counts what a client sends in a file of its own."""
        answer = following(message, context)
        if answer.has_content():
            with (folder / str(context.node_id)).open("a") as out:
                print(recorddict_to_proto(answer.content).ByteSize(), file=out)
        return answer

    def client(context: Any) -> Any:
        return Adds(int(context.node_config["partition-id"]), clients).to_client()

    return ClientApp(client_fn=client, mods=[weighed, secaggplus_mod])


def uploaded(folder: Path) -> int:
    return sum(int(line) for path in folder.iterdir() for line in path.read_text().split())


def cpu_seconds() -> float:
    """Of this process and all that it started."""
    here = psutil.Process()
    times = [p.cpu_times() for p in [here, *here.children(recursive=True)]]
    return sum(t.user + t.system for t in times)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
