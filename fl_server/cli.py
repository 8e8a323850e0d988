"""The commands ms-serve and ms-simulate."""

from __future__ import annotations

import argparse
import ssl
import sys
from collections.abc import Sequence
from pathlib import Path

from fl_server.commands.operator import EXAMPLES, add_place, words
from fl_server.commands.simulate import run as run_simulation
from fl_server.console import exit_code, key_of, parser_of, words_of
from fl_server.errors import MissingExtra, SettingsError


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
    return exit_code("ms-simulate", lambda: run_simulation(arguments))


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
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="rates, limits and waits (docs/federated.md lists them); may be repeated",
    )
    return parser


def _serve(options: argparse.Namespace) -> int:
    try:
        from fl_server.http.serving import serve_forever
        from fl_server.settings import Settings, number_of
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
        attest=words_of("--attest", options.attest),
        poll_s=options.poll_s,
        log=(options.log, options.log_level),
        **dict(number_of(text) for text in options.set),  # type: ignore[arg-type]
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


def _port(text: str) -> int:
    if not text.isdecimal() or len(text) > 5 or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r}: want a number from 0 to 65535")
    return int(text)
