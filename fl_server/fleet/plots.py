"""The course of a simulation as a picture: how well the weights do, and how many took part."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fl_server.errors import MissingExtra, SettingsError
from fl_server.storage.files import write_file

FORMATS = ("png", "svg")


@dataclass(frozen=True)
class Step:
    """A round that is over, at x, its number or its seconds; see `fl_server.timed.Point`."""

    x: float
    loss: float | None
    accuracy: float | None
    clients: int
    joined: int


def check_plot(path: Path) -> None:
    """Nothing, if a picture can be made for such a file.     raises SettingsError, MissingExtra"""
    if path.suffix[1:] not in FORMATS:
        raise SettingsError(f"plot {path}: want a file name that ends in .png or .svg")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtra(f"plot: pip install 'mindspan[plot]': {error}") from None


def write_plot(path: Path, steps: Sequence[Step], x_label: str, title: str) -> None:
    """Write all of a picture or nothing.     raises SettingsError, MissingExtra, OSError"""
    check_plot(path)
    import matplotlib as mpl
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    x = [step.x for step in steps]
    known = [step for step in steps if step.accuracy is not None]
    if known:
        above.plot([s.x for s in known], [s.accuracy for s in known], "o-", ms=3)
        above.set_ylabel("accuracy")
    else:
        above.plot(x, [step.loss for step in steps], "o-", ms=3)
        above.set_ylabel("loss")
    above.set_title(title)
    below.plot(x, [step.joined for step in steps], ".:", color="gray", label="began")
    below.plot(x, [step.clients for step in steps], ".-", label="in the sum")
    below.set_ylim(0, 1.1 * max(step.joined for step in steps))
    below.set_ylabel("devices")
    below.set_xlabel(x_label)
    below.legend(loc="lower right")
    for axes in (above, below):
        axes.grid(alpha=0.3)
    drawn = io.BytesIO()
    # Nothing of when and with what it was drawn: equal runs give equal files.
    with mpl.rc_context({"svg.hashsalt": "mindspan"}):
        none = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(drawn, format=path.suffix[1:], dpi=120, metadata=none)
    write_file(path, drawn.getvalue(), 0o644)
