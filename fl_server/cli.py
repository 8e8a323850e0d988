"""The commands ms-serve and ms-simulate."""

from __future__ import annotations

import argparse
import json
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fl_server.console import exit_code, parser_of, printable, progress, read_word
from fl_server.errors import MissingExtra, SettingsError
from fl_server.secagg.policy import COHORT_FLOOR
from fl_server.secagg.run import Stage

_SERVE_EXAMPLES = """\
  ms-serve --folder state                     serve; keys and tokens are made on the first start
  ms-serve task shoulder --folder state --model model.ms --rounds 5 --set target_cohort=24
  ms-serve status shoulder --folder state --json"""

_SIMULATE_EXAMPLES = """\
  ms-simulate --devices 24 --rounds 3         a linear model over made-up data
  ms-simulate --model model.ms --data devices/ --drop share --drop vector --json"""


def serve(arguments: Sequence[str] | None = None) -> int:
    """ms-serve: the federated server, and what its operator does."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = parser_of("ms-serve", "The federated server.", _SERVE_EXAMPLES)
    _add_place(parser)
    parser.add_argument("--host", default="127.0.0.1", help="(%(default)s)")
    parser.add_argument("--port", type=_port, default=8440, help="0: any (%(default)s)")
    parser.add_argument("--tenant", default="default", help="whose server (%(default)s)")
    parser.add_argument("--database", default="", metavar="URL", help="else SQLite in the folder")
    parser.add_argument(
        "--files", default="", metavar="URL", help="s3://… or a folder for models and vectors"
    )
    parser.add_argument("--workers", type=int, default=1, help="processes (%(default)s)")
    parser.add_argument("--ca-key", type=Path, metavar="FILE", help="the enrolment authority's key")
    parser.add_argument("--tls-cert", metavar="FILE", help="PEM; else plain HTTP")
    parser.add_argument("--tls-key", metavar="FILE", help="PEM, of the certificate")
    parser.add_argument("--poll-s", type=float, default=20.0, help="longest hold (%(default)s)")
    # A word first is a thing to do to a server that runs; without one, this is the server.
    if given and given[0] in ("task", "status"):
        word, rest = given[0], given[1:]
        make, work = (
            (_task_parser, _create_task) if word == "task" else (_status_parser, _show_status)
        )
        return exit_code(f"ms-serve {word}", lambda: work(make().parse_args(rest)))
    return exit_code("ms-serve", lambda: _serve(parser.parse_args(given)))


def simulate(arguments: Sequence[str] | None = None) -> int:
    """ms-simulate: many devices on one machine against the real server."""
    parser = parser_of("ms-simulate", "Many devices on one machine.", _SIMULATE_EXAMPLES)
    parser.add_argument("--devices", type=int, default=24, help="for made-up data (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--model", type=Path, metavar="M.ms", help="train this model on --data")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="one .npz for each device")
    parser.add_argument("--epochs", type=int, default=1, help="of a device (%(default)s)")
    parser.add_argument("--batch-size", type=int, default=16, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of data and order (%(default)s)")
    parser.add_argument(
        "--drop",
        action="append",
        default=[],
        choices=[stage.name.lower() for stage in Stage if stage != Stage.REVEAL],
        help="one more device vanishes after this stage; may be repeated",
    )
    _add_settings(parser)
    parser.add_argument("--json", action="store_true", help="all figures")

    def work() -> int:
        options = parser.parse_args(arguments)
        _check_simulation(parser, options)
        return _simulate(options)

    return exit_code("ms-simulate", work)


def _check_simulation(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Options that no simulation has are wrong usage."""
    if not 2 <= options.devices <= 256 or options.rounds < 1:
        given = f"{options.devices} devices and {options.rounds} rounds"
        parser.error(f"{given}, want 2 to 256 and 1 or more")
    if options.seed < 0:
        parser.error(f"--seed {options.seed}: want 0 or more")
    if options.model and not options.data:
        parser.error("--model needs --data, a folder with a .npz file for each device")
    try:
        from fl_server.settings import TaskSettings

        TaskSettings.checked(name="simulated", **dict(options.set))
    except ImportError:
        return  # said where the server is started
    except SettingsError as error:
        parser.error(f"--set: {error}")


def _serve(options: argparse.Namespace) -> int:
    try:
        from fl_server.serving import serve_forever
        from fl_server.settings import Settings
    except ImportError as error:
        raise MissingExtra(f"pip install 'mindspan[server]': {error}") from None
    settings = Settings(
        options.folder,
        tenant=options.tenant,
        database_url=options.database,
        files_url=options.files,
        workers=options.workers,
        authority_key=options.ca_key,
        poll_s=options.poll_s,
    )
    serve_forever(settings, options.host, options.port, _tls(options.tls_cert, options.tls_key))
    return 0


def _tls(certificate: str | None, key: str | None) -> dict[str, object]:
    """uvicorn's options for TLS, none without a certificate.     raises SettingsError"""
    if not certificate:
        if key:
            raise SettingsError(f"--tls-key {key} needs --tls-cert, the certificate")
        return {}
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        files = f"{certificate} and {key}" if key else certificate
        raise SettingsError(f"{files}: no certificate with its key in PEM ({reason})") from None
    return {"ssl_certfile": certificate, "ssl_keyfile": key}


def _create_task(options: argparse.Namespace) -> int:
    from fl_server.operator import Operator
    from fl_server.weights import weights_vector

    model = options.model.read_bytes()
    if options.weights:
        weights = weights_vector(options.weights.read_bytes())
    else:
        from fl_server.device.trainer import initial_weights

        weights = initial_weights(model)
    settings = {"rounds": options.rounds, **dict(options.set)}
    with Operator(options.server, _token(options)) as operator:
        status = operator.create_task(options.name, model, weights, **settings)
    _show(status, options.json)
    return 0


def _show_status(options: argparse.Namespace) -> int:
    from fl_server.operator import Operator

    with Operator(options.server, _token(options)) as operator:
        found = [operator.status(options.name)] if options.name else operator.tasks()
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        for status in found:
            _show(status, False)
    return 0


def _simulate(options: argparse.Namespace) -> int:
    from fl_server.device.linear import synthetic_device
    from fl_server.device.trainer import (
        LiteTrainer,
        Trainer,
        initial_weights,
        load_examples,
    )
    from fl_server.simulation import simulate as run

    trainers: list[Trainer]
    if options.model:
        files = sorted(options.data.glob("*.npz")) if options.data else []
        if not files:
            raise SettingsError("--model needs --data, a folder with a .npz file for each device")
        model = options.model.read_bytes()
        weights = initial_weights(model)
        trainers = [
            LiteTrainer(load_examples(f), options.epochs, options.batch_size, options.seed + i)
            for i, f in enumerate(files)
        ]
    else:
        model, weights = b"linear", np.zeros(16, np.float32)
        trainers = [synthetic_device(i, seed=options.seed) for i in range(options.devices)]
    stages = [Stage[name.upper()] for name in options.drop]
    floor = min(COHORT_FLOOR, len(trainers) - len(stages))
    if floor < COHORT_FLOOR:
        progress(f"warning: a cohort of {floor} hides nobody; {COHORT_FLOOR} is the floor")
    settings = {"join_s": 4, "share_s": 2, "vector_s": 3, "agree_s": 3, "reveal_s": 3}
    result = run(
        trainers,
        model,
        weights,
        rounds=options.rounds,
        cohort_floor=floor,
        stop_after=dict(enumerate(stages)),
        settings=settings | dict(options.set),
        progress=progress,
    )
    if options.json:
        print(json.dumps(result.figures(), indent=1))
    else:
        _show(result.status, False)
        print(f"{len(trainers)} devices, {result.seconds:.1f} s")
    return 0


def _task_parser() -> argparse.ArgumentParser:
    parser = parser_of("ms-serve task", "Start training a model.", _SERVE_EXAMPLES)
    parser.add_argument("name", help="the task's name")
    parser.add_argument(
        "--model", type=Path, required=True, metavar="M.ms", help="has a train entry"
    )
    parser.add_argument("--weights", type=Path, metavar="FILE", help="float32; else the model's")
    parser.add_argument("--rounds", type=int, default=1, help="(%(default)s)")
    _add_settings(parser)
    return _add_server(parser)


def _status_parser() -> argparse.ArgumentParser:
    parser = parser_of("ms-serve status", "How tasks and rounds stand.", _SERVE_EXAMPLES)
    parser.add_argument("name", nargs="?", help="all tasks if absent")
    return _add_server(parser)


def _add_server(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    _add_place(parser)
    parser.add_argument(
        "--server", default="http://127.0.0.1:8440", metavar="URL", help="(%(default)s)"
    )
    parser.add_argument("--token", default="", help="else read from the folder's admin.token")
    parser.add_argument("--json", action="store_true", help="all figures")
    return parser


def _add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder", type=Path, default=Path("fl-state"), help="keys and state (%(default)s)"
    )


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        action="append",
        type=_setting,
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the task (docs/federated.md lists them); may be repeated",
    )


def _port(text: str) -> int:
    if not text.isdecimal() or len(text) > 5 or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r}: want a number from 0 to 65535")
    return int(text)


def _setting(text: str) -> tuple[str, Any]:
    """The name and value of NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r}: want NAME=VALUE such as min_cohort=24")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def _token(options: argparse.Namespace) -> str:
    path = options.folder / "admin.token"
    if options.token:
        return str(options.token)
    if not path.is_file():
        raise SettingsError(f"{path}: not there; want the server's --folder, or --token")
    try:
        return read_word(path)
    except ValueError:
        raise SettingsError(f"{path}: not text, want the server's token") from None


def _show(status: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(status, indent=1))
        return
    task = f"{status['name']}: {status['state']}, weights {status['version']} {status['error']}"
    print(printable(task))
    if spent := status["privacy"]:
        cost = f"epsilon {spent['epsilon']:.3g} at delta {spent['delta']:g}"
        print(f"  spent: {cost}, in {spent['rounds']} rounds")
    for entry in status["rounds"]:
        figures = entry.get("error") or ", ".join(
            f"{name} {entry[name]:.4g}"
            for name in ("loss", "survivors", "clients")
            if name in entry
        )
        print(printable(f"  round {entry['number']}: {entry['stage']} {figures}".rstrip()))
