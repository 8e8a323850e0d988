"""Metrics for Prometheus: what the database knows of rounds, and how requests are served."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fl_server.access.tokens import Actor
from fl_server.http.logs import log_request
from fl_server.rounds import record
from fl_server.rounds.live import STAGES
from fl_server.service import Service

# Where workers keep numbers that they share; set by the process that starts them.
SHARED_DIR = "PROMETHEUS_MULTIPROC_DIR"
_METHODS = {"GET", "HEAD", "POST", "PUT"}
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """All that /metrics tells."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "mindspan_request_seconds",
            "How long requests took, held ones included",
            ["method", "route", "code"],
            registry=self._registry,
            buckets=_BUCKETS,
        )

    def seen(self, method: str, route: str, code: int, seconds: float) -> None:
        """Count a request."""
        self._seconds.labels(method, route, str(code)).observe(seconds)

    def text(self, actor: Actor) -> bytes:
        """In Prometheus' text form: what the actor sees. Requests are counted for all tenants
        together, so one of a tenant is not told of them."""
        registry = CollectorRegistry()
        if actor.tenant:
            pass
        elif os.environ.get(SHARED_DIR):
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        else:
            registry.register(_Of(self._registry.collect))
        registry.register(_Of(lambda: _state(self._service, actor)))
        return generate_latest(registry)


class Timed:
    """Wraps the application: each request is counted and logged under its route's pattern."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, code = time.perf_counter(), 500

        async def note(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, note)
        finally:
            # What was asked for is free text of a caller's; a route's pattern is one of few.
            route = getattr(scope.get("route"), "path", "none")
            seconds = time.perf_counter() - start
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.seen(method, route, code, seconds)
            log_request(method, route, code, seconds)


class _Of:
    def __init__(self, collect: object) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        assert callable(self._collect)
        found: Iterable[Metric] = self._collect()
        return found


def _state(service: Service, actor: Actor) -> Iterator[Metric]:
    """What the database holds, looked up when it is asked for: the same from every worker."""
    clients = GaugeMetricFamily("mindspan_clients", "Enrolled clients, not revoked")
    clients.add_metric([], service.clients.count(actor.tenant))
    yield clients
    tasks = GaugeMetricFamily("mindspan_task_running", "1 while a task runs", labels=["task"])
    versions = GaugeMetricFamily("mindspan_weights_version", "Of a task", labels=["task"])
    epsilon = GaugeMetricFamily("mindspan_epsilon_spent", "Of a task's privacy", labels=["task"])
    rounds = GaugeMetricFamily("mindspan_rounds", "By how they stand", labels=["task", "stage"])
    sent = GaugeMetricFamily(
        "mindspan_round_messages", "Of the newest open round", labels=["task", "stage"]
    )
    last = GaugeMetricFamily(
        "mindspan_last_round", "Of the newest finished round", labels=["task", "figure"]
    )
    for task in service.rounds.tasks.all():
        if not actor.sees(task.settings.tenant or service.settings.tenant):
            continue
        name = task.name
        tasks.add_metric([name], float(task.state == "running"))
        versions.add_metric([name], service.rounds.weights.latest(name).version)
        if spent := service.rounds.spent(task):
            epsilon.add_metric([name], spent["epsilon"])
        with service.store.read() as db:
            for stage, count in record.stages(db, name).items():
                rounds.add_metric([name, stage], count)
            if rows := record.open_rounds(db, name):
                counts = record.counts(db, name, rows[-1].number)
                for stage in STAGES:
                    sent.add_metric([name, stage], counts.get(stage, 0))
            for figure, value in record.last_summary(db, name).items():
                if isinstance(value, int | float):
                    last.add_metric([name, figure], value)
    yield from (tasks, versions, epsilon, rounds, sent, last)
