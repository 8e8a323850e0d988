"""The command ms-client: a device in Python."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from fl_server.address import tls_context
from fl_server.conditions import Conditions
from fl_server.console import (
    add_tls,
    exit_code,
    key_of,
    parser_of,
    printable,
    progress,
    words_of,
)
from fl_server.device.device import Device, Report
from fl_server.device.trainer import MOST_MEMORY_BYTES, TIMEOUT_S, LiteTrainer, load_examples
from fl_server.errors import SettingsError, TrainingFailed
from fl_server.messages import MOST_ATTESTATION
from fl_server.secagg.policy import COHORT_FLOOR, Policy
from fl_server.secagg.run import Stage

_EXAMPLES = """\
  ms-client --server http://127.0.0.1:8440 --folder device-1 --authority state/ca.pub \\
            --enrol-token $(cat state/enrol.token) --data device-1.npz --rounds 3"""


def client(arguments: Sequence[str] | None = None) -> int:
    """ms-client: enrols, joins rounds, trains with the lite runtime."""
    parser = parser_of("ms-client", "A device: trains a model on its own data.", _EXAMPLES)
    parser.add_argument("--server", required=True, metavar="URL", help="its address")
    parser.add_argument("--folder", type=Path, required=True, help="identity, journal, models")
    parser.add_argument("--authority", required=True, metavar="KEY", help="64 hex digits or a file")
    parser.add_argument("--data", type=Path, required=True, metavar="D.npz", help="array per input")
    parser.add_argument("--enrol-token", default="", help="wanted the first time")
    parser.add_argument(
        "--attest",
        default="",
        metavar="COMMAND",
        help="writes an attestation of the public key, which is its last argument in hexadecimal",
    )
    add_tls(parser)
    parser.add_argument("--population", default="default", help="(%(default)s)")
    parser.add_argument("--rounds", type=int, help="how many to finish; for ever if absent")
    parser.add_argument("--epochs", type=int, default=1, help="each round (%(default)s)")
    parser.add_argument("--batch-size", type=int, default=16, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the order (%(default)s)")
    parser.add_argument("--learning-rate", type=float, help="else the one that the model names")
    parser.add_argument(
        "--proximal", type=float, default=0.0, help="mu of FedProx's term (%(default)s: none)"
    )
    parser.add_argument(
        "--most-memory-mb",
        type=int,
        default=MOST_MEMORY_BYTES >> 20,
        help="what a run of the server's model may take, in MiB (%(default)s)",
    )
    parser.add_argument(
        "--run-timeout-s", type=float, default=TIMEOUT_S, help="and how long (%(default).0f)"
    )
    parser.add_argument(
        "--condition",
        action="append",
        default=[],
        metavar="NAME=N",
        help="said of the device: charging=1, unmetered=1, idle=1, battery=80, app_version=3",
    )
    parser.add_argument("--label", default="label", help="the array of labels (%(default)s)")
    parser.add_argument(
        "--cohort-floor",
        type=int,
        default=COHORT_FLOOR,
        help="fewest clients to be summed with (%(default)s); lower is for tests only",
    )
    parser.add_argument(
        "--noise-multiplier",
        type=float,
        default=0.0,
        help="the least noise that devices must have added to a sum (%(default)g: any, or none)",
    )
    parser.add_argument(
        "--unmasked", action="store_true", help="let the server see updates, if a task asks to"
    )
    parser.add_argument(
        "--stop-after",
        choices=[stage.name.lower() for stage in Stage if stage != Stage.REVEAL],
        help="vanish after this stage, to try drop-outs",
    )
    parser.add_argument("--json", action="store_true", help="a line of JSON for each round")
    return exit_code("ms-client", lambda: _client(parser.parse_args(arguments)))


def _client(options: argparse.Namespace) -> int:
    said = dict(text.partition("=")[::2] for text in options.condition)
    conditions, attest = Conditions.from_query(said), words_of("--attest", options.attest)
    if options.rounds is not None and options.rounds < 1:
        raise SettingsError(f"--rounds {options.rounds}: want 1 or more")
    trainer = LiteTrainer(
        load_examples(options.data),
        options.epochs,
        options.batch_size,
        options.seed,
        options.label,
        learning_rate=options.learning_rate,
        proximal=options.proximal,
        most_memory_bytes=options.most_memory_mb << 20,
        timeout_s=options.run_timeout_s,
    )
    device = Device(
        options.server,
        options.folder,
        trainer,
        key_of(options.authority),
        options.enrol_token,
        options.population,
        Policy(
            options.cohort_floor,
            noise_multiplier=options.noise_multiplier,
            unmasked=options.unmasked,
        ),
        Stage[options.stop_after.upper()] if options.stop_after else None,
        tell=progress,
        conditions=lambda: conditions,
        tls=tls_context(options.tls_ca, options.tls_cert),
        attest=lambda key: _attestation(attest, key),
    )
    with device:
        while True:
            try:
                for report in device.run(options.rounds):
                    _show(report, options.json)
                return 0
            except TrainingFailed:  # as the report has said
                if options.rounds is not None:
                    raise


def _attestation(command: list[str], public_key: bytes) -> bytes:
    """What a command of the platform's says of a key.     raises SettingsError"""
    if not command:
        return b""
    try:
        done = subprocess.run([*command, public_key.hex()], stdout=subprocess.PIPE, check=False)
    except OSError as error:
        raise SettingsError(f"--attest {command[0]}: {error.strerror or error}") from None
    if done.returncode or len(done.stdout) > MOST_ATTESTATION:
        said = f"exit code {done.returncode} and {len(done.stdout)} bytes"
        want = f"want 0, and at most {MOST_ATTESTATION}"
        raise SettingsError(f"--attest {command[0]}: {said}; {want}")
    return done.stdout


def _show(report: Report, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(report)), flush=True)
        return
    figures = f"loss {report.loss:.4f}, {report.bytes_up} bytes up, {report.bytes_down} down"
    line = f"round {report.round}: {report.outcome} {report.error or figures}"
    print(printable(line), flush=True)
