"""The report as one HTML page that needs nothing from elsewhere: tables, and plots as SVG."""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Sequence

import matplotlib as mpl
from matplotlib.figure import Figure

from examples.watch.report import (
    STAGES,
    WHEN,
    Result,
    Table,
    latency_ms,
    notes,
    plus,
    points,
    tables,
)

GREY, BLUE, GREEN, ORANGE, RED = "#8a94a3", "#2f6fde", "#1d9a55", "#e0861a", "#d1495b"
COLORS = {"before": GREY, "federated": BLUE, "personalised": GREEN, "local_only": ORANGE}
STYLE = {
    "svg.fonttype": "none",  # text stays text
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#667085",
    "axes.labelcolor": "#344054",
    "xtick.color": "#475467",
    "ytick.color": "#475467",
    "axes.prop_cycle": mpl.cycler(color=[BLUE, GREEN, ORANGE, RED, GREY]),
}
WAITS = ("advertise", "share", "vector", "agree", "reveal")  # stages that wait for others

CSS = """
:root { color-scheme: light }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem;
  color: #1d2939; background: #fff }
h1 { margin-bottom: .2rem } h2 { margin-top: 2.2rem; font-size: 1.15rem }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.6rem, 1fr)); gap: .8rem }
.card { background: #f5f7fa; border-radius: .6rem; padding: .8rem 1rem }
.card b { display: block; font-size: 1.12rem; white-space: nowrap }
.card span { color: #475467; font-size: .85rem }
.plots { display: grid; grid-template-columns: 1fr 1fr; gap: 1.2rem }
.plots > .wide { grid-column: 1 / -1 }
figure { margin: 0 } figcaption { font-weight: 600; margin-bottom: .2rem }
svg { width: 100%; height: auto }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .15rem 1.1rem .15rem 0; text-align: right; white-space: nowrap }
th:first-child, td:first-child { text-align: left }
th { border-bottom: 1px solid #98a2b3; font-weight: 600 }
tbody tr:nth-child(even) { background: #f8f9fb }
@media (max-width: 50rem) { .plots { grid-template-columns: 1fr } }
"""


def page(result: Result) -> str:
    """The whole page     raises ImportError without matplotlib"""
    first = result["seeds"][0]
    plots = [
        ("Accuracy by round", False, lambda f: _by_round(f, result)),
        ("The model library", False, lambda f: _library(f, result)),
        (f"What compression does (seed {first['seed']})", True, lambda f: _compression(f, first)),
        (f"Each device (seed {first['seed']})", True, lambda f: _by_device(f, first)),
        ("A device's round", False, lambda f: _round(f, result)),
        ("Where the time of the demo goes", False, lambda f: _times(f, result)),
    ]
    figures = "\n".join(_figure(title, wide, draw) for title, wide, draw in plots)
    sentences = "\n".join(f"<li>{html.escape(note)}</li>" for note in notes(result))
    devices, seeds = len(first["outcome"]["names"]), len(result["seeds"])
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>MindSpan demo</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>{CSS}</style></head><body>
<h1>From the cloud to the watch and back</h1>
<p>A small network learns seven shoulder exercises from the watches of two people. It is distilled,
pruned and made int8; {devices} devices of other people train its last layer on their own movements,
and the server learns only the sum of their updates. Other people in each of {seeds} seeds.</p>
<div class="cards">{_cards(result)}</div>
<ul>{sentences}</ul>
<div class="plots">{figures}</div>
{"".join(map(_table, tables(result)))}
</body></html>
"""


def _cards(result: Result) -> str:
    accuracy, stages = result["accuracy"], result["seeds"][0]["stages"]
    gain, shrunk = result["gain"], stages[0]["size_bytes"] / stages[-1]["size_bytes"]
    cards = [
        (points(gain).removesuffix(" points"), "points gained by federation"),
        (plus(accuracy["before"]), "accuracy of the base on new devices"),
        (plus(accuracy["federated"]), "after federation"),
        (plus(accuracy["personalised"]), "after personalisation"),
        (f"{shrunk:.1f} ×", "smaller: teacher to int8 base"),
        (f"{result['traffic']['bytes_up'] / 1000:.1f} kB", "up per device and round"),
    ]
    return "".join(
        f'<div class="card"><b>{html.escape(value)}</b><span>{html.escape(what)}</span></div>'
        for value, what in cards
    )


def _table(table: Table) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in table.head)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    return (
        f'<h2>{html.escape(table.title)}</h2><div class="scroll"><table><thead><tr>{head}</tr>'
        f"</thead><tbody>{rows}</tbody></table></div>\n"
    )


def _figure(title: str, wide: bool, draw: Callable[[Figure], None]) -> str:
    """What `draw` draws, as SVG inside the page. The same result gives the same bytes."""
    out = io.StringIO()
    with mpl.rc_context(STYLE | {"svg.hashsalt": title}):
        figure = Figure(figsize=(10.4 if wide else 5.1, 3.2), layout="constrained")
        draw(figure)
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(out, format="svg", metadata=nothing)
    svg = out.getvalue()[out.getvalue().index("<svg") :]
    where = ' class="wide"' if wide else ""
    return f"<figure{where}><figcaption>{html.escape(title)}</figcaption>{svg}</figure>"


def _by_round(figure: Figure, result: Result) -> None:
    ax = figure.subplots()
    for s in result["seeds"]:
        ax.plot(s["outcome"]["by_round"], marker="o", markersize=3, label=f"seed {s['seed']}")
    for number in sorted({number for _, _, number, _ in result["dropped"]}):
        ax.axvline(number, color=GREY, linestyle=":", linewidth=1)
        ax.annotate(
            "devices vanish",
            (number, 0.02),
            xycoords=("data", "axes fraction"),
            xytext=(4, 0),
            textcoords="offset points",
            color=GREY,
            fontsize=8,
        )
    ax.set(xlabel="round (0: the base)", ylabel="mean accuracy of the devices")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(frameon=False)


def _compression(figure: Figure, seed: Result) -> None:
    """Three panels, so that sizes that differ tenfold and accuracies that hardly do both show."""
    stages = seed["stages"]
    names = [s["name"] for s in stages]
    panels = [
        ("size, kB", [s["size_bytes"] / 1000 for s in stages], "{:.1f}"),
        ("latency, µs", [1000 * s["latency_ms"] for s in stages], "{:.1f}"),
        ("accuracy on people not seen", [s["accuracy"] for s in stages], "{:.3f}"),
    ]
    axes = figure.subplots(1, 3, sharey=True)
    for ax, (label, values, form), color in zip(axes, panels, (GREY, ORANGE, BLUE), strict=True):
        bars = ax.barh(names, values, color=color, height=0.6)
        ax.bar_label(bars, [form.format(v) for v in values], padding=3, fontsize=9)
        ax.set(xlabel=label, xlim=(0, 1.2 * max(values)))
    axes[0].invert_yaxis()


def _by_device(figure: Figure, seed: Result) -> None:
    outcome, ax = seed["outcome"], figure.subplots()
    order = sorted(range(len(outcome["names"])), key=lambda i: outcome["before"][i])
    every = [[outcome[when][i] for when in WHEN] for i in order]
    ax.vlines(range(len(order)), [min(e) for e in every], [max(e) for e in every], color="#d0d5dd")
    # Equal accuracies lie on each other, so each kind has a place of its own beside the line.
    shifts = {"before": -0.24, "federated": -0.08, "personalised": 0.08, "local_only": 0.24}
    for when, label in WHEN.items():
        places = [x + shifts[when] for x in range(len(order))]
        ax.plot(
            places,
            [outcome[when][i] for i in order],
            marker="D" if when == "local_only" else "o",
            linestyle="",
            markersize=5,
            color=COLORS[when],
            label=label,
        )
    names = [outcome["names"][i] for i in order]
    ax.set_xticks(range(len(order)), names, rotation=55, ha="right", fontsize=8)
    ax.set(ylabel="accuracy", ylim=(None, 1.03))
    ax.grid(axis="y", color="#eaecf0")
    ax.set_axisbelow(True)
    figure.legend(loc="outside upper right", ncols=len(WHEN), frameon=False)


def _library(figure: Figure, result: Result) -> None:
    ax, library = figure.subplots(), result["library"]
    limit = 1000 * library["limit_ms"]
    dots = [(1000 * latency_ms(result, m), m["accuracy"], m["name"]) for m in library["models"]]
    for x, y, name in dots:
        ax.plot(x, y, "o", color=ORANGE if name == library["best"] else BLUE)
    ax.axvline(limit, linestyle=":", color=GREY)
    ax.annotate(
        f"limit {limit:.1f} µs",
        (limit, 0.02),
        xycoords=("data", "axes fraction"),
        xytext=(4, 0),
        textcoords="offset points",
        color=GREY,
        fontsize=8,
    )
    ax.set(xlabel="latency, µs", ylabel="accuracy on people not seen")
    ax.margins(0.18)
    for (x, y, name), above in zip(dots, _above(dots), strict=True):
        ax.annotate(
            name,
            (x, y),
            xytext=(0, 7 if above else -7),
            textcoords="offset points",
            ha="center",
            va="bottom" if above else "top",
            fontsize=8,
        )


def _above(dots: Sequence[tuple[float, float, str]]) -> list[bool]:
    """Whether a dot's name stands above it: not if the next higher dot is so near as to collide."""
    width = max(x for x, _, _ in dots) - min(x for x, _, _ in dots) or 1.0
    height = max(y for _, y, _ in dots) - min(y for _, y, _ in dots) or 1.0

    def crowded(i: int) -> bool:
        x, y, _ = dots[i]
        return any(
            (other_y, j) > (y, i) and abs(other_x - x) < width / 4 and other_y - y < height / 6
            for j, (other_x, other_y, _) in enumerate(dots)
        )

    return [not crowded(i) for i in range(len(dots))]


def _round(figure: Figure, result: Result) -> None:
    seconds, ax = result["device_seconds"], figure.subplots()
    colors = [GREY if stage in WAITS else BLUE for stage in STAGES]
    bars = ax.barh(STAGES, [1000 * seconds[s] for s in STAGES], color=colors, height=0.7)
    ax.bar_label(bars, fmt="%.0f", padding=3, fontsize=9)
    ax.invert_yaxis()
    ax.margins(x=0.12)
    ax.set(xlabel="milliseconds, mean (grey: waiting for others included)")


def _times(figure: Figure, result: Result) -> None:
    ax = figure.subplots()
    seeds = [f"seed {s['seed']}" for s in result["seeds"]]
    left = [0.0] * len(seeds)
    phases = (("cloud", "cloud", ORANGE), ("rounds", "federated rounds", BLUE))
    for phase, label, color in (*phases, ("personal", "on each device", GREEN)):
        values = [s["seconds"][phase] for s in result["seeds"]]
        ax.barh(seeds, values, left=left, color=color, label=label, height=0.6)
        left = [a + b for a, b in zip(left, values, strict=True)]
    ax.barh(["library"], [result["library"]["seconds"]], color=GREY, height=0.6)
    ax.invert_yaxis()
    ax.set(xlabel="seconds")
    figure.legend(loc="outside upper right", ncols=3, frameon=False)
