"""The demo's report: its figures are right, its page needs nothing else, its files are whole."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from examples.watch import report
from tests.examples.results import library_result, part, seed_result

pytest.importorskip("matplotlib")
from examples.watch import page

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
VOID = {"meta", "br", "img", "link", "input", "hr"}
NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    """Two seeds whose federated accuracies are 0.8 and 0.84."""
    return report.summarise([seed_result(0, 0.8), seed_result(1, 0.84)], library_result())


@pytest.fixture(scope="module")
def html(result: dict[str, Any]) -> str:
    return page.page(result)


def cells(result: dict[str, Any], title: str) -> dict[str, tuple[str, ...]]:
    """The rows of the table whose title begins so, by their first cell."""
    (table,) = [t for t in report.tables(result) if t.title.startswith(title)]
    return {row[0]: row[1:] for row in table.rows}


def test_the_gain_is_federated_minus_before_with_its_spread_over_seeds(
    result: dict[str, Any],
) -> None:
    assert result["gain_by_seed"] == pytest.approx([0.2, 0.24])
    assert result["gain"]["mean"] == pytest.approx(0.22)
    assert result["gain"]["sd"] == pytest.approx(0.04 / 2**0.5)  # the sample's
    assert "+22.0 ± 2.8 points over the base" in report.text(result)


def test_what_devices_reach_alone_and_what_new_people_get_is_stated(result: dict[str, Any]) -> None:
    text = report.text(result)
    assert "as many epochs: 0.920 ± 0.000." in text
    assert "Personalised after federation: 0.960 ± 0.000 (+4.0 ± 0.0 points)" in text
    assert "0.650 ± 0.000 with the base, 0.675 ± 0.000 with the federated head (+2.5" in text


def test_one_seed_has_no_spread(result: dict[str, Any]) -> None:
    alone = report.summarise([seed_result()], library_result())
    assert alone["gain"]["sd"] is None
    assert "±" not in report.text(alone)
    assert "NaN" not in page.page(alone)


def test_the_table_of_compression_has_accuracy_size_and_latency(result: dict[str, Any]) -> None:
    assert cells(result, "Cloud") == {
        "teacher": ("50,000", "200.0", "0.0300", "0.900", "1.5"),
        "int8 base": ("5,000", "20.0", "0.0100", "0.800", "1.5"),
    }


def test_the_library_marks_the_model_that_the_search_found(result: dict[str, Any]) -> None:
    assert list(cells(result, "Library")) == ["small *", "twin", "large"]
    assert "within 0.0072 ms" in report.text(result)


def test_every_device_has_its_accuracies_and_those_that_vanished_are_marked(
    result: dict[str, Any],
) -> None:
    assert cells(result, "Devices") == {
        "p01-left-a": ("0.500", "0.800", "0.950", "0.900"),
        "p01-left-b †": ("0.700", "0.800", "0.970", "0.940"),
    }
    assert cells(result, "Vanished")["p01-left-b, seed 1"] == ("2", "share", "1 of 2")


def test_all_seeds_are_shown_with_their_gains(result: dict[str, Any]) -> None:
    rows = cells(result, "All seeds")
    assert rows["1"] == ("0.600", "0.840", "0.960", "0.920", "+24.0", "0.650", "0.675")
    assert rows["mean ± sd"][4] == "+22.0 ± 2.8"


def test_traffic_is_of_whole_rounds_and_the_first_stands_apart(result: dict[str, Any]) -> None:
    traffic = result["traffic"]
    assert (traffic["bytes_up"], traffic["bytes_down"]) == (100, 1000)
    assert traffic["bytes_down_first_round"] == 1500
    assert (traffic["all_bytes_up"], traffic["all_bytes_down"]) == (800, 10_000)


def test_times_are_by_stage_and_add_up(result: dict[str, Any]) -> None:
    assert cells(result, "A device's round")["vector"] == ("60",)
    assert cells(result, "Time")["seed 0"] == ("3.0", "5.0", "2.0")
    assert result["seconds"] == 2 * 10 + 4


def test_a_round_that_failed_for_a_device_is_told_and_counts_in_no_mean() -> None:
    odd = seed_result()
    odd["outcome"]["reports"][0][1] = part(2, "failed", "share") | {"bytes_up": 7}
    found = report.summarise([odd], library_result())
    assert found["failed"] == ["0: p01-left-a, round 2: Gone: too late"]
    assert "Failed for a device, seed 0: p01-left-a, round 2: Gone: too late." in report.text(found)
    assert found["traffic"]["bytes_up"] == 100


class Checked(HTMLParser):
    """Counts tags, and refuses what a browser would fetch and tags that do not close."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        for name, value in attrs:
            fetched = name in ("src", "href", "xlink:href", "data", "srcset", "action")
            assert not fetched or str(value).startswith("#"), (tag, name, value)
        assert tag not in ("script", "link", "iframe", "object"), tag
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_fetches_nothing(html: str) -> None:
    checked = Checked()
    checked.feed(html)
    assert checked.open == []
    assert checked.count["svg"] == 6
    assert checked.count["table"] == 7
    assert set(re.findall(r"https?://[^\"'\s<)]*", html)) <= NAMESPACES
    assert "@import" not in html
    assert all(url.startswith("#") for url in re.findall(r"url\(([^)]*)\)", html))


def test_the_page_shows_all_that_the_text_shows(html: str, result: dict[str, Any]) -> None:
    for table in report.tables(result):
        for row in (table.head, *table.rows):
            for cell in row:
                assert f">{cell}</t" in html.replace("&#x27;", "'"), cell
    for unit in ("latency, µs", "size, kB", "milliseconds", "seconds", "round (0: the base)"):
        assert unit in html


def test_names_are_text_and_never_markup() -> None:
    odd = seed_result()
    odd["outcome"]["names"][0] = "<script>alert(1)</script>"
    assert "<script" not in page.page(report.summarise([odd], library_result()))


def test_the_same_result_gives_the_same_bytes(html: str, result: dict[str, Any]) -> None:
    assert page.page(result) == html


def test_names_of_dots_that_lie_together_stand_apart() -> None:
    dots = [(4.0, 0.7, "small"), (4.0, 0.7, "twin"), (12.0, 0.8, "large")]
    assert page._above(dots) == [False, True, True]
    assert page._above(dots[:1]) == [True]


def test_the_files_are_the_text_the_page_and_the_data(
    result: dict[str, Any], html: str, tmp_path: Path
) -> None:
    names = report.write(result, tmp_path / "new")
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == sorted(names)
    read = {p.name: p.read_text() for p in (tmp_path / "new").iterdir()}
    assert read["report.html"] == html
    assert read["report.txt"] == report.text(result).rstrip() + "\n"
    assert read["report.txt"].startswith(f"{report.TITLE}\n\n")
    assert json.loads(read["report.json"]) == json.loads(json.dumps(result))


def test_a_result_that_cannot_be_drawn_leaves_the_older_report(
    result: dict[str, Any], tmp_path: Path
) -> None:
    report.write(result, tmp_path)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with pytest.raises(KeyError):
        report.write({**result, "seeds": [{"seed": 3}]}, tmp_path)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here to open the page with")
def test_a_browser_draws_the_page(result: dict[str, Any], tmp_path: Path) -> None:
    report.write(result, tmp_path)
    shot = tmp_path / "shot.png"
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    url = f"file://{tmp_path}/report.html"
    command = [str(CHROMIUM), *options, f"--screenshot={shot}", "--window-size=1200,2600", url]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    from matplotlib.image import imread

    pixels = imread(shot)[..., :3]
    assert pixels.shape == (2600, 1200, 3)
    # The bars and dots of the plots are there, in their colours.
    for color in (page.BLUE, page.GREEN, page.ORANGE):
        wanted = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        assert (abs(pixels - wanted) < 0.02).all(axis=-1).sum() > 100, color
