"""The demo's report: a table for the terminal, JSON for programs, one page with plots."""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Sequence
from statistics import mean, stdev
from typing import Any

Result = dict[str, Any]
WHEN = ("before", "federated", "personalised")
STAGES = ("download", "train", "advertise", "share", "mask", "vector", "agree", "reveal")


def summarise(seeds: Sequence[Result], library: Result, seconds: float) -> Result:
    """Everything that is shown, from the results of the seeds."""
    accuracy = {when: [mean(s["outcome"][when]) for s in seeds] for when in WHEN}
    gains = [f - b for b, f in zip(accuracy["before"], accuracy["federated"], strict=True)]
    reports = [r for s in seeds for device in s["outcome"]["reports"] for r in device]
    whole = [r for r in reports if r["outcome"] == "done"]
    return {
        "accuracy": {when: _spread(values) for when, values in accuracy.items()},
        "gain": _spread(gains),
        "gain_by_seed": gains,
        "traffic": {
            "bytes_up": mean(r["bytes_up"] for r in whole),
            "bytes_down": mean(r["bytes_down"] for r in whole),
            "bytes_down_first_round": mean(r["bytes_down"] for r in whole if r["round"] == 1),
        },
        "device_seconds": {
            stage: mean(r["seconds"].get(stage, 0.0) for r in whole) for stage in STAGES
        },
        "dropped": [d for s in seeds for d in s["outcome"]["dropped"]],
        "library": library,
        "seeds": list(seeds),
        "seconds": seconds,
    }


def text(result: Result) -> str:
    """The tables of the terminal."""
    first = result["seeds"][0]
    rows = [
        (
            s["name"],
            f"{s['parameters']:,}",
            f"{s['size_bytes'] / 1000:.1f}",
            f"{s['latency_ms']:.4f}",
            f"{s['accuracy']:.3f}",
        )
        for s in first["stages"]
    ]
    parts = [f"\ncloud, seed {first['seed']} (accuracy on people not seen)"]
    parts.append(_table(("stage", "parameters", "kB", "ms", "accuracy"), rows))
    best = result["library"]["best"]
    rows = [
        (
            m["name"] + (" *" if m["name"] == best else ""),
            f"{m['size_bytes'] / 1000:.1f}",
            f"{_latency(result, m):.4f}",
            f"{m['accuracy']:.3f}",
        )
        for m in sorted(result["library"]["models"], key=lambda m: _latency(result, m))
    ]
    parts.append(f"\nlibrary (* the best under {result['library']['limit_ms']:.4f} ms)")
    parts.append(_table(("model", "kB", "ms", "accuracy"), rows))
    outcome = first["outcome"]
    rows = [
        (name, *(f"{outcome[when][i]:.3f}" for when in WHEN))
        for i, name in enumerate(outcome["names"])
    ]
    parts.append(f"\ndevices, seed {first['seed']} (accuracy on their own held-out windows)")
    parts.append(_table(("device", *WHEN), rows))
    rows = [
        (str(s["seed"]), *(f"{mean(s['outcome'][when]):.3f}" for when in WHEN), f"{100 * g:+.1f}")
        for s, g in zip(result["seeds"], result["gain_by_seed"], strict=True)
    ]
    rows.append(
        (
            "mean ± sd",
            *(_plus(result["accuracy"][when]) for when in WHEN),
            _plus(result["gain"], 100),
        )
    )
    parts.append("\nall seeds (mean over the devices; gain of federation over the base in points)")
    parts.append(_table(("seed", *WHEN, "gain"), rows))
    parts.append("")
    parts.append(_costs(result))
    return "\n".join(parts)


def _costs(result: Result) -> str:
    traffic, seconds = result["traffic"], result["device_seconds"]
    dropped = ", ".join(f"{name} after {stage} (round {n})" for name, n, stage in result["dropped"])
    times = ", ".join(f"{stage} {1000 * s:.0f}" for stage, s in seconds.items())
    return (
        f"a device's round: {traffic['bytes_up']:,.0f} B up, {traffic['bytes_down']:,.0f} B down "
        f"({traffic['bytes_down_first_round']:,.0f} B in the first, with the model)\n"
        f"milliseconds of a device's round, waiting for others included: {times}\n"
        f"vanished: {dropped}\n"
        f"in all {result['seconds']:.0f} s"
    )


def page(result: Result) -> str:
    """One self-contained HTML page with plots."""
    plots = [
        ("Accuracy by round", _plot(lambda ax: _by_round(ax, result))),
        (
            "Each device, before and after",
            _plot(lambda ax: _by_device(ax, result["seeds"][0]), wide=True),
        ),
        ("What compression does", _plot(lambda ax: _compression(ax, result["seeds"][0]))),
        ("The model library", _plot(lambda ax: _library(ax, result))),
        ("Where a device's round goes", _plot(lambda ax: _times(ax, result))),
    ]
    figures = "\n".join(
        f"<figure><figcaption>{title}</figcaption>{svg}</figure>" for title, svg in plots
    )
    gain = result["gain"]
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>MindSpan demo</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222 }}
figure {{ display: inline-block; margin: 1rem 1rem 1rem 0; vertical-align: top }}
figcaption {{ font-weight: 600 }}
pre {{ background: #f6f6f4; padding: 1rem; overflow-x: auto }}
svg {{ max-width: 100%; height: auto }}
</style>
<h1>From the cloud to the watch and back</h1>
<p>A base trained on two people is distilled, pruned and made int8. {len(result["seeds"][0]["outcome"]["names"])}
devices of other people train its head on their own movements; the server learns only the sum of their updates.
Federation gains <b>{100 * gain["mean"]:.1f} ± {100 * gain["sd"]:.1f} points</b> over the base on the
devices' held-out windows ({len(result["seeds"])} seeds).</p>
{figures}
<pre>{html.escape(text(result))}</pre>
</html>
"""


def _by_round(ax: Any, result: Result) -> None:
    for s in result["seeds"]:
        ax.plot(s["outcome"]["by_round"], marker="o", markersize=3, label=f"seed {s['seed']}")
    ax.set(xlabel="round (0: the base)", ylabel="mean accuracy over devices")
    ax.legend()


def _by_device(ax: Any, seed: Result) -> None:
    outcome = seed["outcome"]
    order = sorted(range(len(outcome["names"])), key=lambda i: outcome["before"][i])
    for k, when in enumerate(WHEN):
        ax.bar(
            [x + (k - 1) * 0.27 for x in range(len(order))],
            [outcome[when][i] for i in order],
            0.27,
            label=when,
        )
    ax.set_xticks(
        range(len(order)), [outcome["names"][i] for i in order], rotation=60, ha="right", fontsize=7
    )
    ax.set(ylabel="accuracy")
    ax.legend(loc="lower right")


def _compression(ax: Any, seed: Result) -> None:
    for s in seed["stages"]:
        ax.plot(s["size_bytes"] / 1000, s["accuracy"], "o")
        ax.annotate(
            s["name"],
            (s["size_bytes"] / 1000, s["accuracy"]),
            xytext=(5, 4),
            textcoords="offset points",
        )
    ax.set(xlabel="size of the file, kB", ylabel="accuracy on people not seen", xscale="log")
    ax.margins(0.2)


def _library(ax: Any, result: Result) -> None:
    for m in result["library"]["models"]:
        x = 1000 * _latency(result, m)
        ax.plot(
            x,
            m["accuracy"],
            "o",
            color="tab:orange" if m["name"] == result["library"]["best"] else "tab:blue",
        )
        ax.annotate(
            m["name"], (x, m["accuracy"]), xytext=(5, 4), textcoords="offset points", fontsize=8
        )
    ax.axvline(1000 * result["library"]["limit_ms"], linestyle=":", color="gray")
    ax.set(xlabel="latency, microseconds", ylabel="accuracy on people not seen")
    ax.margins(0.2)


def _times(ax: Any, result: Result) -> None:
    seconds = result["device_seconds"]
    ax.barh(list(seconds), [1000 * s for s in seconds.values()])
    ax.invert_yaxis()
    ax.set(xlabel="milliseconds, waiting for others included")


def _plot(draw: Callable[[Any], None], *, wide: bool = False) -> str:
    """What `draw` draws, as SVG text that stands inside a page."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, ax = pyplot.subplots(figsize=(10 if wide else 5, 3.4), layout="constrained")
    draw(ax)
    ax.spines[["top", "right"]].set_visible(False)
    out = io.StringIO()
    figure.savefig(out, format="svg")
    pyplot.close(figure)
    return out.getvalue()[out.getvalue().index("<svg") :]


def _latency(result: Result, model: Result) -> float:
    return float(model["latency_ms"][result["library"]["device"]])


def _spread(values: Sequence[float]) -> dict[str, float]:
    """mean and sample standard deviation (0 for one value)"""
    return {"mean": mean(values), "sd": stdev(values) if len(values) > 1 else 0.0}


def _plus(spread: dict[str, float], factor: float = 1) -> str:
    digits = 1 if factor == 100 else 3
    return f"{factor * spread['mean']:.{digits}f} ± {factor * spread['sd']:.{digits}f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side: the first to the left, numbers to the right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in (head, *rows)
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])
