"""The page that learns digits: its data, its base, and a person who draws, teaches and saves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import lite_runtime as lite
from examples.web import digits, site
from examples.web.__main__ import Handler, main
from tests.examples.browser import Page, chromium, served
from tests.helpers import DATA, fetched
from tests.native import wasm_build

SEVEN = [[(0.2, 0.15), (0.8, 0.15), (0.45, 0.9)]]
HOOK = [[(0.15, 0.85), (0.15, 0.2), (0.5, 0.5), (0.85, 0.2), (0.85, 0.85)]]  # no digit's shape

SEEN = (  # ink by cell, of the small picture
    "JSON.stringify(Array.from(document.getElementById('seen').getContext('2d')"
    ".getImageData(0, 0, 8, 8).data).filter((_, i) => i % 4 === 0).map((v) => 1 - v / 255))"
)


@pytest.fixture(scope="module")
def data() -> tuple[digits.Digits, digits.Digits]:
    return digits.load(fetched(digits.DIGITS))


@pytest.fixture(scope="module")
def folder(
    data: tuple[digits.Digits, digits.Digits], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("site")
    site.build(folder, *data, wasm_build("lite_wasm") / "bin/lite.wasm", lambda line: None)
    return folder


@pytest.fixture(scope="module")
def downloads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture
def page(folder: Path, downloads: Path) -> Iterator[Page]:
    handler = partial(Handler, directory=str(folder))
    with chromium(downloads) as page, served(folder, handler) as address:
        page.open(address)
        page.until("document.getElementById('answer').textContent === 'Draw a digit'")
        yield page


def draw(page: Page, strokes: list[list[tuple[float, float]]]) -> str:
    """Clears the board and draws; what the page then says."""
    page.click("document.getElementById('clear')")
    left, top, size = page.evaluate(
        "(() => { const b = document.getElementById('board').getBoundingClientRect();"
        "return [b.x, b.y, b.width]; })()"
    )
    for stroke in strokes:
        page.drag([(left + size * x, top + size * y) for x, y in stroke])
    return str(page.evaluate("document.getElementById('answer').textContent"))


def test_the_data_are_the_digits(data: tuple[digits.Digits, digits.Digits]) -> None:
    known, unseen = data
    assert len(known) + len(unseen) == 1797
    for part in data:
        assert part.x.shape[1:] == (8, 8, 1)
        assert (part.x.min(), part.x.max()) == (0, 1)
        assert set(part.y.tolist()) == set(range(10))


def test_the_base_reads_digits_of_people_it_never_saw(
    folder: Path, data: tuple[digits.Digits, digits.Digits]
) -> None:
    session = lite.load(folder / "digits.ms")
    found = session.run(data[1].x).argmax(axis=1)
    assert np.mean(found == data[1].y) > 0.93
    assert [w.kind for w in session.weight_infos if w.name.startswith("head.")] == ["trainable"] * 2


def test_a_missing_module_is_one_line(
    data: tuple[digits.Digits, digits.Digits], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere, cache = str(tmp_path / "nowhere.wasm"), str(DATA)
    wanted = ["--wasm", nowhere, "--data", cache, "--out", str(tmp_path / "site"), "--build-only"]
    assert main(wanted) == 1
    said = capsys.readouterr().err
    assert said == f"web: [Errno 2] No such file or directory: '{nowhere}'\n"


def test_the_page_reads_what_is_drawn(page: Page) -> None:
    assert draw(page, SEVEN).startswith("It is a 7")


def test_a_person_teaches_the_page_and_takes_the_model_home(
    page: Page, folder: Path, downloads: Path
) -> None:
    assert not draw(page, HOOK).startswith("It is a 2")
    for _ in range(3):
        page.click("document.querySelectorAll('#labels button')[2]")
    assert page.evaluate("document.getElementById('answer').textContent").startswith("It is a 2")
    assert "Learned from 3 of yours: loss" in page.evaluate(
        "document.getElementById('learned').textContent"
    )
    pixels = page.evaluate(SEEN)
    assert draw(page, SEVEN).startswith("It is a 7")  # the others are not forgotten

    page.click("document.getElementById('save')")
    assert page.wait_for_download() == "personal.ms"
    before, after = lite.load(folder / "digits.ms"), lite.load(downloads / "personal.ms")
    assert np.abs(after.weights()["head.weight"] - before.weights()["head.weight"]).max() > 1e-3
    seen = np.float32(json.loads(pixels)).reshape(1, 8, 8, 1)
    assert after.run(seen).argmax() == 2 != before.run(seen).argmax()


def test_a_file_that_is_no_model_is_refused_in_one_line(page: Page) -> None:
    page.evaluate(
        "(() => { const files = new DataTransfer(); files.items.add(new File(['no'], 'no.ms'));"
        "const open = document.getElementById('open'); open.files = files.files;"
        "open.dispatchEvent(new Event('change')); })()"
    )
    said = page.until("document.getElementById('learned').textContent")
    assert said == "file of 2 bytes: too short for a model"
