"""What cannot be converted is listed whole: every place, by name, with what would help."""

from __future__ import annotations

from pathlib import Path

import pytest

from converter import ConvertError, UnsupportedError, convert
from converter.onnx.rules import RULES
from converter.onnx.unsupported import nearest
from tests.converter.onnx_graphs import model, one


def caught(source: object, folder: Path) -> ConvertError:
    with pytest.raises(ConvertError) as found:
        convert(source, folder / "m.ms")  # type: ignore[arg-type]
    assert "\n" not in str(found.value)
    assert not list(folder.iterdir())
    return found.value


def test_operators_and_uses_without_a_counterpart_are_listed_together(tmp_path: Path) -> None:
    source = model(
        [("StringNormalizer", ["x"], ["a"], {"name": "words"}),
         ("Relu", ["a"], ["b"], {"name": "behind"}),  # no place of its own: it follows
         ("LayerNormalization", ["x", "x"], ["c"], {"name": "norm", "axis": 7}),
         ("Gelu", ["x"], ["d"], {"name": "act", "approximate": "roughly"}),
         ("Add", ["b", "c"], ["e"], {}), ("Add", ["e", "d"], ["y"], {})],
        {"x": (2, 3)}, ["y"],
    )  # fmt: skip
    error = caught(source, tmp_path)
    assert isinstance(error, UnsupportedError)
    assert [(p.operator, p.name, p.index) for p in error.places] == [
        ("StringNormalizer", "words", 0), ("LayerNormalization", "norm", 2), ("Gelu", "act", 3),
    ]  # fmt: skip
    message = str(error)
    assert "StringNormalizer ×1 (words; models hold no text: cut the graph" in message
    assert "LayerNormalization ×1 (norm): " in message
    assert "Gelu ×1 (act): " in message
    assert "behind" not in message


def test_one_wrong_use_alone_is_told_as_it_is(tmp_path: Path) -> None:
    error = caught(one("LayerNormalization", (2, 3), axis=7), tmp_path)
    assert [p.operator for p in error.places] == ["LayerNormalization"]
    assert str(error).count("LayerNormalization") == 1


def test_many_places_of_one_kind_are_counted_and_some_are_named(tmp_path: Path) -> None:
    nodes = [("Mystery", ["x"], [f"v{i}"], {"name": f"n{i}"}) for i in range(20)]
    source = model([*nodes, ("Sum", [f"v{i}" for i in range(20)], ["y"], {})], {"x": (2, 3)}, ["y"])
    error = caught(source, tmp_path)
    assert len(error.places) == 20
    assert "Mystery ×20 (n0, n1, n2, n3, n4, n5, n6, n7 and 12 more; " in str(error)


def test_names_of_any_text_stay_one_line(tmp_path: Path) -> None:
    error = caught(
        model([("Mys\nt\x01", ["x"], ["y"], {"name": "a\nb"})], {"x": (2,)}, ["y"]), tmp_path
    )
    assert str(error).startswith(r"unsupported operators: Mys\nt\x01 ×1 (a\nb; ")


@pytest.mark.parametrize(
    ("operator", "domain", "hint"),
    [
        ("Rellu", "", "did you mean Relu?"),
        ("FusedMatMul", "com.microsoft", "without ONNX Runtime's graph optimisations"),
        ("ImageDecoder", "", "decode images before"),
        ("Qwertz", "", "cut the graph before it"),
        ("StringSplit", "", "models hold no text"),
    ],
)
def test_a_hint_says_what_would_help(operator: str, domain: str, hint: str) -> None:
    assert hint in nearest(operator, domain, RULES)


def test_an_operator_that_the_standard_writes_out_says_so() -> None:
    assert nearest("Shrink", "", {}).startswith("ONNX defines it by ")
