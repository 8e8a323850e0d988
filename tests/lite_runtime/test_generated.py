"""What `python -m ir.gen` writes is committed as it is."""

from __future__ import annotations

from ir.gen import PAGE_BEGIN, outputs


def test_generated_files_are_what_the_table_and_the_schema_make() -> None:
    for path, text in outputs().items():
        assert path.read_text() == text, f"{path}: run `make gen`"
        assert "generated" in text.splitlines()[0].lower() or PAGE_BEGIN in text
