"""docs/protocol.md: the tests that it names are there, and its figures are the code's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fl_people import encoding_of

from fl_server import errors
from fl_server.secagg import labels
from fl_server.secagg.graph import sparse_graph
from tests.helpers import ROOT

PAGE = (ROOT / "docs" / "protocol.md").read_text()
ROWS = re.findall(r"^\| (\d+) \| (.+?) \| .+? \| (.+?) \|$", PAGE, re.M)


def named_tests() -> set[str]:
    found: set[str] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        found.update(re.findall(r"^def (test_\w+)\(", path.read_text(), re.M))
    return found


def test_every_attack_of_the_list_has_its_row():
    assert [int(number) for number, *_ in ROWS] == list(range(1, 27))


@pytest.mark.parametrize(("number", "attack", "tests"), ROWS)
def test_an_attack_has_tests_that_are_there(number, attack, tests):
    names = re.findall(r"`(test_\w+)`", tests)
    assert names, attack
    assert set(names) <= named_tests(), number


def test_every_refusal_of_a_client_is_an_error_and_is_described():
    section = PAGE.partition("## What a client refuses")[2].partition("\n## ")[0]
    for name in re.findall(r"`([A-Z]\w+)`", section.replace("`Policy`", "")):
        assert issubclass(getattr(errors, name), errors.ProtocolError), name


def test_degrees_of_sparse_graphs_on_the_page_are_those_of_the_code():
    shown = re.findall(r"\((\d+), (\d+)\) for ([\d,]+)", PAGE)
    assert len(shown) == 3
    for degree, threshold, clients in shown:
        params = sparse_graph(int(clients.replace(",", "")), encoding_of(1))
        assert (params.neighbours, params.threshold) == (int(degree), int(threshold))


def test_every_label_is_on_the_page():
    for name, label in vars(labels).items():
        if name.isupper() and isinstance(label, bytes) and label.startswith(b"fl-sa/1 "):
            text = label.rstrip(b"\x00").decode()
            assert f"`{text}`" in PAGE, name
