"""The demo's report: tables for the terminal, JSON for programs, one page with plots."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from ir.files import write_whole

TITLE = "From the cloud to the watch and back"
Result = dict[str, Any]
Spread = dict[str, Any]  # mean, sd
WHEN = {
    "before": "before",
    "federated": "federated",
    "personalised": "personalised",
    "local_only": "local only",
}
STAGES = ("download", "train", "advertise", "share", "mask", "vector", "agree", "reveal")
PHASES = {"cloud": "cloud", "rounds": "federated rounds", "personal": "on each device"}


@dataclass(frozen=True)
class Table:
    """The first column is text, the others are numbers."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def __str__(self) -> str:
        rows = [self.head, *self.rows]
        widths = [max(len(row[i]) for row in rows) for i in range(len(self.head))]
        lines = [
            "  ".join(
                cell.ljust(w) if i == 0 else cell.rjust(w)
                for i, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        return "\n".join([self.title, "", lines[0], "-" * len(lines[0]), *lines[1:]])


def summarise(seeds: Sequence[Result], library: Result) -> Result:
    """Everything that is shown, from the results of the seeds and of the library."""
    outcomes = [s["outcome"] for s in seeds]
    accuracy = {when: [mean(o[when]) for o in outcomes] for when in WHEN}
    gains = _differences(accuracy["federated"], accuracy["before"])
    new_people = [[o["new_people"][i] for o in outcomes] for i in (0, 1)]
    reports = [r for o in outcomes for device in o["reports"] for r in device]
    whole = [r for r in reports if r["outcome"] == "done"]
    return {
        "accuracy": {when: _spread(values) for when, values in accuracy.items()},
        "gain": _spread(gains),
        "gain_by_seed": gains,
        "gain_over_local_only": _spread(
            _differences(accuracy["personalised"], accuracy["local_only"])
        ),
        "new_people": {
            "before": _spread(new_people[0]),
            "federated": _spread(new_people[1]),
            "gain": _spread(_differences(new_people[1], new_people[0])),
        },
        "traffic": {
            "bytes_up": _mean(r["bytes_up"] for r in whole),
            "bytes_down": _mean(r["bytes_down"] for r in whole if r["round"] > 1),
            "bytes_down_first_round": _mean(r["bytes_down"] for r in whole if r["round"] == 1),
            "all_bytes_up": sum(r["bytes_up"] for r in reports),
            "all_bytes_down": sum(r["bytes_down"] for r in reports),
        },
        "device_seconds": {
            stage: _mean(r["seconds"].get(stage, 0.0) for r in whole) for stage in STAGES
        },
        "failed": [f"{s['seed']}: {error}" for s in seeds for error in _errors(s["outcome"])],
        "dropped": [[s["seed"], *d] for s in seeds for d in s["outcome"]["dropped"]],
        "library": library,
        "seeds": list(seeds),
        "seconds": sum(sum(s["seconds"].values()) for s in seeds) + library["seconds"],
    }


def write(result: Result, folder: Path) -> list[str]:
    """The names of the files: the tables, the page, and everything as JSON. All or none change."""
    from examples.watch.page import page  # needs matplotlib

    contents = {
        "report.txt": text(result),
        "report.html": page(result),
        "report.json": json.dumps(result, indent=1),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        write_whole(folder / name, (content.rstrip() + "\n").encode())
    return list(contents)


def text(result: Result) -> str:
    """A title, the tables, and the notes below them."""
    return "\n\n".join([TITLE, *map(str, tables(result)), *notes(result)])


def tables(result: Result) -> list[Table]:
    first = result["seeds"][0]
    return [
        _cloud(first),
        _library(result),
        _devices(first),
        _all_seeds(result),
        _dropped(result),
        _times(result),
        _round(result),
    ]


def notes(result: Result) -> list[str]:
    """What the tables say, in sentences."""
    seeds, traffic, accuracy = len(result["seeds"]), result["traffic"], result["accuracy"]
    new = result["new_people"]
    spread = "" if seeds == 1 else f" (mean ± standard deviation over {seeds} seeds)"
    return [
        f"Federation moves the devices' accuracy on their held-out windows by "
        f"{points(result['gain'])} over the base{spread}.",
        f"People who never took part: {plus(new['before'])} with the base, "
        f"{plus(new['federated'])} with the federated head ({points(new['gain'])}).",
        f"Devices alone, with their own labels and as many epochs: {plus(accuracy['local_only'])}. "
        f"Personalised after federation: {plus(accuracy['personalised'])} "
        f"({points(result['gain_over_local_only'])}).",
        f"A device's round, bodies of its messages: {traffic['bytes_up']:,.0f} B up, "
        f"{traffic['bytes_down']:,.0f} B down "
        f"({traffic['bytes_down_first_round']:,.0f} B in the first round, with the model). "
        f"All devices and rounds: {traffic['all_bytes_up'] / 1e6:.2f} MB up, "
        f"{traffic['all_bytes_down'] / 1e6:.2f} MB down.",
        *(f"Failed for a device, seed {error}." for error in result["failed"]),
    ]


def plus(spread: Spread) -> str:
    sd = spread["sd"]
    return f"{spread['mean']:.3f}" + ("" if sd is None else f" ± {sd:.3f}")


def points(spread: Spread) -> str:
    sd = spread["sd"]
    return f"{100 * spread['mean']:+.1f}" + ("" if sd is None else f" ± {100 * sd:.1f}") + " points"


def latency_ms(result: Result, model: Result) -> float:
    return float(model["latency_ms"][result["library"]["device"]])


def _cloud(seed: Result) -> Table:
    rows = [
        (
            s["name"],
            f"{s['parameters']:,}",
            f"{s['size_bytes'] / 1000:.1f}",
            f"{s['latency_ms']:.4f}",
            f"{s['accuracy']:.3f}",
            f"{s['seconds']:.1f}",
        )
        for s in seed["stages"]
    ]
    head = ("stage", "parameters", "size kB", "latency ms", "accuracy", "made in s")
    return Table(f"Cloud, seed {seed['seed']} (accuracy on people not seen)", head, rows)


def _library(result: Result) -> Table:
    library = result["library"]
    rows = [
        (
            m["name"] + (" *" if m["name"] == library["best"] else ""),
            f"{m['size_bytes'] / 1000:.1f}",
            f"{latency_ms(result, m):.4f}",
            f"{m['accuracy']:.3f}",
        )
        for m in sorted(library["models"], key=lambda m: latency_ms(result, m))
    ]
    title = f"Library on {library['device']} (* the best within {library['limit_ms']:.4f} ms)"
    return Table(title, ("model", "size kB", "latency ms", "accuracy"), rows)


def _devices(seed: Result) -> Table:
    outcome = seed["outcome"]
    vanished = {name for name, *_ in outcome["dropped"]}
    rows = [
        (name + (" †" if name in vanished else ""), *(f"{outcome[w][i]:.3f}" for w in WHEN))
        for i, name in enumerate(outcome["names"])
    ]
    title = f"Devices, seed {seed['seed']} (accuracy on their held-out windows; † vanished once)"
    return Table(title, ("device", *WHEN.values()), rows)


def _all_seeds(result: Result) -> Table:
    rows = []
    for s, gain in zip(result["seeds"], result["gain_by_seed"], strict=True):
        outcome = s["outcome"]
        means = [f"{mean(outcome[when]):.3f}" for when in WHEN]
        people = [f"{a:.3f}" for a in outcome["new_people"]]
        rows.append((str(s["seed"]), *means, f"{100 * gain:+.1f}", *people))
    if len(rows) > 1:
        means = [plus(result["accuracy"][when]) for when in WHEN]
        people = [plus(result["new_people"][when]) for when in ("before", "federated")]
        gain = points(result["gain"]).removesuffix(" points")
        rows.append(("mean ± sd", *means, gain, *people))
    head = ("seed", *WHEN.values(), "gain, points", "new people", "… federated")
    return Table(
        "All seeds (mean accuracy of the devices; of people who never took part)", head, rows
    )


def _dropped(result: Result) -> Table:
    """Who vanished, and how many the sum of that round has."""
    seeds = {s["seed"]: s["outcome"]["rounds"] for s in result["seeds"]}
    rows = []
    for seed, name, number, stage in result["dropped"]:
        told = next(r for r in seeds[seed] if r["number"] == number)
        counts = f"{told['survivors']} of {told['clients']}"
        rows.append((f"{name}, seed {seed}", str(number), stage, counts))
    head = ("device", "round", "last stage", "devices in the sum")
    return Table("Vanished in the middle of a round", head, rows)


def _times(result: Result) -> Table:
    rows = [
        (f"seed {s['seed']}", *(f"{s['seconds'][p]:.1f}" for p in PHASES)) for s in result["seeds"]
    ]
    rows.append(("library", f"{result['library']['seconds']:.1f}", "", ""))
    title = f"Time, seconds (in all {result['seconds']:.0f} s)"
    return Table(title, ("part", *PHASES.values()), rows)


def _round(result: Result) -> Table:
    rows = [(stage, f"{1000 * s:.0f}") for stage, s in result["device_seconds"].items()]
    return Table("A device's round (mean; waiting for others included)", ("stage", "ms"), rows)


def _errors(outcome: Result) -> list[str]:
    """Every round that went wrong for a device."""
    return [
        f"{name}, round {r['round']}: {r['error']}"
        for name, reports in zip(outcome["names"], outcome["reports"], strict=True)
        for r in reports
        if r["outcome"] == "failed"
    ]


def _mean(values: Iterable[float]) -> float:
    """The mean, 0 of nothing: a run of one round has no second one to tell of."""
    return mean([*values] or [0.0])


def _spread(values: Sequence[float]) -> Spread:
    """mean and sample standard deviation (None for one value)"""
    return {"mean": mean(values), "sd": stdev(values) if len(values) > 1 else None}


def _differences(after: Sequence[float], before: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(after, before, strict=True)]
