"""The words behind `ms-serve ca`: the enrolment authority, on a machine apart from the server."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import threading
import time
from collections.abc import Callable
from pathlib import Path

from fl_server.authority.ca import CertificateAuthority, parse_request
from fl_server.console import parser_of, printable, progress, read_word
from fl_server.errors import FlError, ServerUnreachable, SettingsError
from fl_server.operator import Operator

_EXAMPLES = """\
  ms-serve ca init --ca ca                    makes ca.key, ca.pub and ca.crl
  ms-serve --folder state --ca-pub ca.pub     a server that has no key
  ms-serve ca sign --ca ca --server https://host:8440 --token TOKEN --watch 5
  ms-serve ca revoke 17 --ca ca               the next `sign` hands the list in
  ms-serve ca rotate --ca ca                  a new key, which the old one signs"""


def ca_parser() -> argparse.ArgumentParser:
    parser = parser_of("ms-serve ca", "The enrolment authority.", _EXAMPLES)
    actions = list(_ACTIONS)
    parser.add_argument("action", choices=actions, help="what to do")
    parser.add_argument("client", nargs="*", type=int, help="of revoke: whom")
    parser.add_argument("--ca", type=Path, default=Path("ca"), help="its folder (%(default)s)")
    parser.add_argument("--passphrase-file", type=Path, metavar="FILE", help="of the key")
    parser.add_argument("--server", metavar="URL", help="of sign: the server")
    parser.add_argument("--token", default="", help="of sign: one of the server's, scope ca")
    parser.add_argument("--tls-ca", metavar="FILE", help="PEM; who vouches for the server")
    parser.add_argument(
        "--attest", default="", metavar="COMMAND", help="decides about a device (docs/operation.md)"
    )
    parser.add_argument("--days", type=int, default=365, help="of a certificate (%(default)s)")
    parser.add_argument("--watch", type=float, metavar="S", help="of sign: again every S seconds")
    return parser


def ca(options: argparse.Namespace) -> int:
    _ACTIONS[options.action](options)
    return 0


def _open(options: argparse.Namespace) -> CertificateAuthority:
    return CertificateAuthority(options.ca, _passphrase(options))


def _init(options: argparse.Namespace) -> None:
    made = CertificateAuthority.create(options.ca, os.urandom, _passphrase(options))
    print(made.public.hex())


def _show(options: argparse.Namespace) -> None:
    print(json.dumps(_open(options).describe(), indent=1))


def _revoke(options: argparse.Namespace) -> None:
    if not options.client:
        raise SettingsError("ca revoke: want the numbers of clients")
    revoked = _open(options).revoke(set(options.client)).revoked
    print(f"list {revoked.number}: {len(revoked.serials)} revoked")


def _rotate(options: argparse.Namespace) -> None:
    authority = _open(options)
    link = authority.rotate(os.urandom)
    print(f"key {link.number}: {authority.public.hex()}")


def _sign(options: argparse.Namespace) -> None:
    if not options.server:
        raise SettingsError("ca sign: want --server and --token")
    authority, pause = _open(options), threading.Event()
    with Operator(options.server, options.token, tls_ca=options.tls_ca) as operator:
        while True:
            try:
                sign(authority, operator, options.days, shlex.split(options.attest))
            except ServerUnreachable as error:
                if options.watch is None:
                    raise
                progress(f"ms-serve ca: {error}")
            if options.watch is None:
                return
            pause.wait(options.watch)


def sign(
    authority: CertificateAuthority, operator: Operator, days: int, command: list[str]
) -> tuple[int, int]:
    """Hand in all that a server waits for; how many devices were certified and refused."""
    found = operator.ca_requests()
    authority.revoke(set(map(int, found["revoked"])))
    operator.ca_publish(authority.handovers, authority.revocations)
    certificates, refused = [], []
    for entry in found["requests"]:
        asked = parse_request(entry)
        try:
            certificates.append(authority.certify(asked, time.time(), days, command))
        except SettingsError:
            raise
        except FlError as error:
            refused.append(asked.client)
            progress(printable(f"client {asked.client} refused: {error}"))
    operator.ca_answer(certificates, refused)
    if certificates or refused:
        print(f"{len(certificates)} certified, {len(refused)} refused", flush=True)
    return len(certificates), len(refused)


def _passphrase(options: argparse.Namespace) -> str:
    if options.passphrase_file is None:
        return ""
    try:
        word = read_word(options.passphrase_file)
    except ValueError:
        word = ""
    if not word:
        raise SettingsError(f"{options.passphrase_file}: holds no passphrase")
    return word


_ACTIONS: dict[str, Callable[[argparse.Namespace], None]] = {
    "init": _init,
    "sign": _sign,
    "revoke": _revoke,
    "rotate": _rotate,
    "show": _show,
}
