"""The commands ms-serve and ms-simulate."""

from __future__ import annotations

import argparse
import json
import shlex
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fl_server.commands.operator import EXAMPLES, add_place, add_settings, local_of, show, words
from fl_server.commands.timed import add_times, run_timed
from fl_server.console import exit_code, key_of, parser_of, progress
from fl_server.errors import MissingExtra, SettingsError
from fl_server.secagg.policy import COHORT_FLOOR
from fl_server.secagg.run import Stage

_SIMULATE_EXAMPLES = """\
  ms-simulate --devices 24 --rounds 3         a linear model over made-up data
  ms-simulate --model model.ms --data devices/ --drop share --drop vector --json
  ms-simulate --timed --slow 0.1 --rounds 50 --set target_cohort=4 --set max_staleness=20"""


def serve(arguments: Sequence[str] | None = None) -> int:
    """ms-serve: the federated server, and what its operator does."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # A word first is a thing to do to a server that runs; without one, this is the server.
    if given and given[0] in (known := words()):
        make, work = known[given[0]]
        return exit_code(f"ms-serve {given[0]}", lambda: work(make().parse_args(given[1:])))
    return exit_code("ms-serve", lambda: _serve(_serve_parser().parse_args(given)))


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
    parser.add_argument(
        "--hostile",
        type=int,
        default=0,
        metavar="N",
        help="devices that send opposites (%(default)s)",
    )
    add_settings(parser)
    add_times(parser)
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
    if not 0 <= options.hostile <= options.devices:
        parser.error(f"--hostile {options.hostile}: want 0 to {options.devices}, the devices")
    if options.seed < 0:
        parser.error(f"--seed {options.seed}: want 0 or more")
    if options.timed and options.drop:
        parser.error("--timed has no --drop: slow devices come late, and nobody vanishes")
    if options.model and not options.data:
        parser.error("--model needs --data, a folder with a .npz file for each device")
    try:
        from fl_server.task_settings import TaskSettings

        TaskSettings.checked(name="simulated", **dict(options.set))
    except ImportError:
        return  # said where the server is started
    except SettingsError as error:
        parser.error(f"--set: {error}")


def _serve_parser() -> argparse.ArgumentParser:
    parser = parser_of("ms-serve", "The federated server.", EXAMPLES)
    add_place(parser)
    parser.add_argument("--host", default="127.0.0.1", help="(%(default)s)")
    parser.add_argument("--port", type=_port, default=8440, help="0: any (%(default)s)")
    parser.add_argument("--tenant", default="default", help="whose server (%(default)s)")
    parser.add_argument("--database", default="", metavar="URL", help="else SQLite in the folder")
    parser.add_argument(
        "--files", default="", metavar="URL", help="s3://… or a folder for models and vectors"
    )
    parser.add_argument("--workers", type=int, default=1, help="processes (%(default)s)")
    parser.add_argument("--ca-key", type=Path, metavar="FILE", help="the enrolment authority's key")
    parser.add_argument("--ca-pub", type=Path, metavar="FILE", help="of an authority kept apart")
    parser.add_argument(
        "--attest", default="", metavar="COMMAND", help="decides whether a device may enrol"
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="PEM; else plain HTTP")
    parser.add_argument("--tls-key", metavar="FILE", help="PEM, of the certificate")
    parser.add_argument(
        "--tls-client-ca", metavar="FILE", help="PEM; callers need a certificate of its"
    )
    parser.add_argument("--log", choices=["text", "json"], default="text", help="(%(default)s)")
    parser.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        default="warning",
        help="debug: every request; info: rounds that end (%(default)s)",
    )
    parser.add_argument("--poll-s", type=float, default=20.0, help="longest hold (%(default)s)")
    return parser


def _serve(options: argparse.Namespace) -> int:
    try:
        from fl_server.http.serving import serve_forever
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
        authority_public=key_of(str(options.ca_pub)) if options.ca_pub else b"",
        attest=shlex.split(options.attest),
        poll_s=options.poll_s,
        log=(options.log, options.log_level),
    )
    tls = _tls(options.tls_cert, options.tls_key, options.tls_client_ca)
    serve_forever(settings, options.host, options.port, tls)
    return 0


def _tls(certificate: str | None, key: str | None, client_ca: str | None) -> dict[str, object]:
    """uvicorn's options for TLS, none without a certificate.     raises SettingsError"""
    if not certificate:
        for option, file in (("--tls-key", key), ("--tls-client-ca", client_ca)):
            if file:
                raise SettingsError(f"{option} {file} needs --tls-cert, the certificate")
        return {}
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        files = f"{certificate} and {key}" if key else certificate
        raise SettingsError(f"{files}: no certificate with its key in PEM ({reason})") from None
    options: dict[str, object] = {"ssl_certfile": certificate, "ssl_keyfile": key}
    if client_ca:
        from fl_server.address import tls_context

        tls_context(client_ca)
        options |= {"ssl_ca_certs": client_ca, "ssl_cert_reqs": ssl.CERT_REQUIRED}
    return options


def _simulate(options: argparse.Namespace) -> int:
    from fl_server.device.hostile import Flipped
    from fl_server.device.linear import synthetic_device
    from fl_server.device.trainer import LiteTrainer, Trainer, load_examples
    from fl_server.device.weights import initial_weights
    from fl_server.simulation import simulate as run
    from fl_server.timed import Learner

    trainers: list[Learner]
    if options.model:
        files = sorted(options.data.glob("*.npz")) if options.data else []
        if not files:
            raise SettingsError("--model needs --data, a folder with a .npz file for each device")
        model = options.model.read_bytes()
        weights = initial_weights(model, local_of(options.set))
        trainers = [
            LiteTrainer(load_examples(f), options.epochs, options.batch_size, options.seed + i)
            for i, f in enumerate(files)
        ]
    else:
        model, weights = b"linear", np.zeros(16, np.float32)
        trainers = [synthetic_device(i, seed=options.seed) for i in range(options.devices)]
    if options.timed:
        return run_timed(options, trainers, model, weights)
    norm = float(dict(options.set).get("clip_norm", 10.0))
    honest = len(trainers) - options.hostile
    players: list[Trainer] = [*trainers[:honest]]
    players += [Flipped(trainer, norm) for trainer in trainers[honest:]]
    stages = [Stage[name.upper()] for name in options.drop]
    floor = min(COHORT_FLOOR, len(trainers) - len(stages))
    if floor < COHORT_FLOOR:
        progress(f"warning: a cohort of {floor} hides nobody; {COHORT_FLOOR} is the floor")
    settings = {"join_s": 4, "share_s": 2, "vector_s": 3, "agree_s": 3, "reveal_s": 3}
    result = run(
        players,
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
        show(result.status, False)
        print(f"{len(trainers)} devices, {result.seconds:.1f} s")
    return 0


def _port(text: str) -> int:
    if not text.isdecimal() or len(text) > 5 or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r}: want a number from 0 to 65535")
    return int(text)
