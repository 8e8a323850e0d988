"""The peers' inference models by MindSpan: an adapter for their harness, see README.md."""

from __future__ import annotations

from typing import Any

from adapters import Adapter


class MindSpan(Adapter):  # type: ignore[misc]
    """Files that `infer.py` converts; input and output lie as in the source, channels first."""

    name = "mindspan"
    env = "venv-mindspan"
    pattern = "mindspan_{p}.ms"

    def imports(self) -> None:
        import lite_runtime

        self.lite = lite_runtime

    def version(self) -> str:
        return str(self.lite.__version__)

    def load(self, path: str, x: Any, threads: int) -> None:
        self.session = self.lite.load(path, threads=threads)
        self.x = x

    def run(self) -> None:
        self.y = self.session.run(self.x)

    def output(self) -> Any:
        return self.y
