"""What conversion makes of a folder of models: python -m bench.conversion MODELS

MODELS is a folder with real models (onnx, tflite). Converts each with no flags, which compares the
answers with the source's own runtime, and prints the table of docs/converter.md: sizes of both
files, nodes before and after, how many of these run on int8, transposes that are left, the largest
error that was found, and seconds, the comparison included.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from converter import ConvertError, convert

KINDS = ("onnx", "tflite")


def main() -> int:
    p = argparse.ArgumentParser(prog="python -m bench.conversion", description=__doc__)
    p.add_argument("models", type=Path, help="folder with the real models")
    folder = p.parse_args().models
    models = [f for kind in KINDS for f in sorted((folder / kind).glob(f"*.{kind}"))]
    print("| model | kB | .ms | nodes | .ms | on int8 | transposes | error | s |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as out:
        for line in rows(models, Path(out) / "m.ms"):
            print(line, flush=True)
    return 0


def rows(models: list[Path], target: Path) -> Iterator[str]:
    for model in models:
        try:
            made = convert(model, target)
        except ConvertError as e:
            yield f"| {model.name} | {e} |"
            continue
        sizes = f"{made.source_bytes / 1000:.0f} | {made.target_bytes / 1000:.0f}"
        nodes = f"{made.nodes_read} | {sum(made.nodes.values())} | {made.int8_nodes}"
        error = 0.0 if made.worst is None else made.error_of(made.worst)
        last = f"{made.nodes.get('transpose', 0)} | {error:.1g} | {made.seconds:.1f}"
        yield f"| {model.name} | {sizes} | {nodes} | {last} |"


if __name__ == "__main__":
    raise SystemExit(main())
