"""What the pages show: the figures of tasks and rounds, and the charts made of them."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from fl_server.access.tokens import Actor
from fl_server.errors import NotFound
from fl_server.http.dashboard.charts import bars, lines
from fl_server.rounds import record
from fl_server.rounds.live import FAILED, FINISHED, STAGES
from fl_server.service import Service
from fl_server.tasks import Task

# What the stages are called where people look.
_NAMES = {
    "advertise": "joined",
    "share": "shared keys",
    "vector": "uploaded",
    "agree": "agreed",
    "reveal": "revealed",
}
_SHOWN = 60
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B"))


def overview(service: Service, actor: Actor) -> dict[str, Any]:
    """All tasks that the actor sees, and the fleet."""
    tasks = [t for t in service.rounds.tasks.all() if _sees(service, actor, t)]
    cards = [_card(service, task) for task in tasks]
    order = {"running": 0, "failed": 1, "stopped": 2, "finished": 3}
    cards.sort(key=lambda card: (order[card["state"]], card["name"]))
    return {"tasks": cards, "fleet": service.clients.fleet(actor.tenant)}


def task_page(service: Service, actor: Actor, name: str) -> dict[str, Any]:
    """One task with its rounds.     raises NotFound"""
    task = service.rounds.tasks.get(name)
    if not _sees(service, actor, task):
        raise NotFound(f"there is no task {name}")
    rounds = record.of_task(service.store, name)
    over = [r for r in rounds if r["stage"] == FINISHED]
    ended = [r for r in rounds if r["stage"] in (FINISHED, FAILED)][-_SHOWN:]
    return {
        "task": _card(service, task),
        "settings": _changed(task),
        "loss": lines([(r["number"], r["loss"]) for r in over if "loss" in r]),
        "accuracy": lines(
            [(r["number"], 100 * r["correct"] / r["examples"]) for r in over if r.get("correct")],
            unit="%",
        ),
        "bytes": _bytes([(r["number"], r.get("bytes_up", 0)) for r in ended]),
        "losses": _dropped(ended),
        "rounds": [_row(entry) for entry in reversed(rounds[-_SHOWN:])],
        "versions": len(service.rounds.weights.versions(name)),
    }


def _sees(service: Service, actor: Actor, task: Task) -> bool:
    return actor.sees(task.settings.tenant or service.settings.tenant)


def _card(service: Service, task: Task) -> dict[str, Any]:
    rounds = record.of_task(service.store, task.name)
    over = [r for r in rounds if r["stage"] == FINISHED]
    live = next((r for r in rounds if r["stage"] in STAGES), None)
    last = over[-1] if over else {}
    return {
        "name": task.name,
        "state": task.state,
        "error": task.error,
        "kind": task.settings.kind,
        "population": task.settings.population,
        "strategy": task.settings.strategy,
        "done": len(over),
        "wanted": task.settings.rounds,
        "failed": sum(r["stage"] == FAILED for r in rounds),
        "loss": last.get("loss"),
        "accuracy": _accuracy(last),
        "survivors": last.get("survivors"),
        "clients": last.get("clients"),
        "live": None if live is None else _live(task, live, service.settings.clock()),
        "privacy": _privacy(service, task),
        "spark": lines([(r["number"], r["loss"]) for r in over if "loss" in r], small=True),
    }


def _accuracy(entry: dict[str, Any]) -> float | None:
    if not entry.get("correct") or not entry.get("examples"):
        return None
    return 100 * float(entry["correct"]) / float(entry["examples"])


def _live(task: Task, entry: dict[str, Any], now: float) -> dict[str, Any]:
    """The open round, stage by stage: how many have sent what of how many."""
    counts, at = entry["counts"], STAGES.index(entry["stage"])
    expected, steps = task.settings.selected, []
    for place, stage in enumerate(STAGES):
        count = counts.get(stage, 0)
        steps.append({
            "name": _NAMES[stage],
            "state": "done" if place < at else "now" if place == at else "next",
            "count": count,
            "of": expected,
            "share": round(100 * min(count / expected, 1)) if expected else 0,
        })  # fmt: skip
        if place < at:
            expected = count  # who is out does not come back
    left = max(entry["deadline"] - now, 0)
    return {"number": entry["number"], "steps": steps, "left": _duration(left)}


def _privacy(service: Service, task: Task) -> dict[str, Any] | None:
    spent = service.rounds.spent(task)
    if spent is None:
        return None
    budget = task.settings.epsilon
    share = 0 if budget is None else round(100 * min(spent["epsilon"] / budget, 1))
    return {**spent, "budget": budget, "share": share}


def _dropped(ended: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """After which stage devices were lost, over the rounds shown."""
    found = []
    total = sum(r["counts"].get("advertise", 0) for r in ended) or 1
    # Of those who have uploaded no more is needed than enough, so who is silent is not lost.
    for before, after in pairwise(STAGES[:3]):
        gone = sum(
            max(r["counts"].get(before, 0) - r["counts"][after], 0)
            for r in ended
            if after in r["counts"]
        )
        found.append({
            "name": f"{_NAMES[before]}, not {_NAMES[after]}",
            "count": gone,
            "share": round(100 * gone / total, 1),
        })  # fmt: skip
    failed = sum(r["counts"].get("vector", 0) for r in ended if r["stage"] == FAILED)
    share = round(100 * failed / total, 1)
    return [*found, {"name": "uploaded, the round failed", "count": failed, "share": share}]


def _bytes(points: list[tuple[int, int]]) -> Markup:
    """Bars in the unit that suits the largest."""
    most = max((value for _, value in points), default=0)
    scale, unit = next((s, u) for s, u in _UNITS if most >= s or s == 1)
    return bars([(number, value / scale) for number, value in points], unit=f" {unit}")


def _row(entry: dict[str, Any]) -> dict[str, Any]:
    seconds = entry.get("seconds", {})
    open_now = entry["stage"] in STAGES
    return {
        "number": entry["number"],
        "stage": _NAMES.get(entry["stage"], entry["stage"]),
        "state": "running" if open_now else entry["stage"],
        "clients": entry.get("clients", entry.get("counts", {}).get("advertise", 0)),
        "survivors": entry.get("survivors"),
        "loss": entry.get("loss"),
        "accuracy": _accuracy(entry),
        "bytes": entry.get("bytes_up"),
        "seconds": None if open_now else _duration(sum(seconds.values())),
        "error": entry.get("error", "") or _lost(entry),
        "opened": time.strftime("%Y-%m-%d %H:%M", time.gmtime(entry["opened_at"])),
    }


def _lost(entry: dict[str, Any]) -> str:
    """What became of the shards that are not in the sum."""
    lost = entry.get("lost", ())
    return f"{len(lost)} of {entry['shards']} shards lost: {'; '.join(lost)}" if lost else ""


def _changed(task: Task) -> list[tuple[str, Any]]:
    """The settings that are not the defaults."""
    fields = type(task.settings).model_fields
    return [
        (name, value)
        for name, value in task.settings.model_dump().items()
        if name != "name" and value != fields[name].default
    ]


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
