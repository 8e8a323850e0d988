"""Builds the page and serves it to this machine alone."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from converter import ConvertError
from examples.package_data import DataError
from examples.web import digits, site


class Handler(SimpleHTTPRequestHandler):
    """Files of one folder, without a line for each."""

    extensions_map = SimpleHTTPRequestHandler.extensions_map | {".wasm": "application/wasm"}

    def log_message(self, *_: object) -> None:
        """Nothing: the page is for one person."""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: served until interrupted, or built; 1: failed, one line says why."""
    args = _parser().parse_args(argv)
    try:
        known, unseen = digits.load(digits.DIGITS.fetch(args.data, print))
        wasm = args.wasm or site.wasm_module()
        site.build(args.out, known, unseen, wasm, print)
        if not args.build_only:
            serve(args.out, args.port)
        return 0
    except (DataError, ConvertError, site.SiteError, OSError) as error:
        print("web:", " ".join(str(error).split()), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0


def serve(folder: Path, port: int) -> None:
    """Serves the folder to this machine alone, until it is interrupted."""
    handler = partial(Handler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        print(f"open http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m examples.web", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/web"), help="the page's folder")
    parser.add_argument("--data", type=Path, default=Path("out/data"), help="where data is kept")
    parser.add_argument("--wasm", type=Path, help="a lite.wasm; default: it is built")
    parser.add_argument("--port", type=int, default=8000, help="0: any free one")
    parser.add_argument("--build-only", action="store_true", help="do not serve")
    return parser


if __name__ == "__main__":
    sys.exit(main())
