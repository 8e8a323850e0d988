"""The main job, `make demo`: cloud → compression → devices → secure federation → report."""

from __future__ import annotations

import argparse
import importlib.util
import logging
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from cloud.nas import LibraryError
from converter import ConvertError
from examples.package_data import DataError
from examples.watch import report
from examples.watch.federate import DemoError
from examples.watch.run import Demo, run
from examples.watch.server import ServerFailed
from fl_server.errors import FlError
from lite_runtime import LiteError

SEEDS = (0, 1, 2)
FAILURES = (
    DataError,
    ConvertError,
    LibraryError,
    ServerFailed,
    DemoError,
    FlError,
    LiteError,
    OSError,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: the report is written; 1: failed, one line says why; 130: interrupted."""
    args = _parser().parse_args(argv)
    start = time.perf_counter()

    def say(line: str) -> None:
        print(f"[{time.perf_counter() - start:5.1f} s] {line}", flush=True)

    # What goes wrong for a device is in its report, and an interrupt goes wrong for all of them.
    logging.getLogger("fl_server.device").setLevel(logging.ERROR)
    # What ends a process politely ends the server and the devices too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if importlib.util.find_spec("matplotlib") is None:
            raise DemoError("the report needs matplotlib; pip install 'mindspan[demo]'")
        result = report.summarise(*run(Demo(args.out, args.data, say, args.fresh), args.seeds))
        print(f"\n{report.text(result)}")
        print(f"\nin {args.out}: {', '.join(report.write(result, args.out))}")
        say("done")
        return 0
    except FAILURES as e:
        print("demo:", " ".join(str(e).split()), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted; finished seeds are kept", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="python -m examples.watch", description=__doc__)
    p.add_argument("--out", type=Path, default=Path("out/demo"), help="(%(default)s)")
    p.add_argument("--data", type=Path, default=Path("out/data"), help="(%(default)s)")
    p.add_argument(
        "--seeds", type=int, nargs="+", default=SEEDS, metavar="SEED", help=f"(default {SEEDS})"
    )
    p.add_argument("--fresh", action="store_true", help="reuse nothing of an earlier run")
    return p


if __name__ == "__main__":
    sys.exit(main())
