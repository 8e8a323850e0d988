"""The words behind `ms-serve ca`: the enrolment authority, on a machine apart from the server."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from fl_server.authority.attestation import check_command
from fl_server.authority.ca import CertificateAuthority, Request, parse_request
from fl_server.console import add_tls, parser_of, printable, progress, read_word, words_of
from fl_server.errors import (
    FlError,
    HookFailed,
    Malformed,
    ServerRefused,
    ServerUnreachable,
    SettingsError,
)
from fl_server.operator import Operator
from fl_server.secagg.certificate import Certificate
from fl_server.settings import MOST_DAYS

# A server that is away is asked again after a pause that grows from --watch to this.
_LONGEST_PAUSE_S = 300.0
_MOST_WATCH_S = 86400
_MOST_PASSPHRASE = 1023  # of the library that encrypts the key, in bytes

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
    add_tls(parser)
    parser.add_argument(
        "--attest", default="", metavar="COMMAND", help="decides about a device (docs/operation.md)"
    )
    parser.add_argument("--days", type=int, default=365, help="of a certificate (%(default)s)")
    parser.add_argument("--watch", type=float, metavar="S", help="of sign: again every S seconds")
    return parser


def ca(options: argparse.Namespace) -> int:
    _ACTIONS[options.action](options)
    return 0


@contextmanager
def _opened(options: argparse.Namespace) -> Iterator[CertificateAuthority]:
    """The authority, which no other command changes meanwhile."""
    passphrase = _passphrase(options)
    if not options.ca.is_dir():
        raise SettingsError(f"{options.ca}/ca.key: not there; ms-serve ca init makes an authority")
    with (options.ca / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield CertificateAuthority(options.ca, passphrase)


def _init(options: argparse.Namespace) -> None:
    made = CertificateAuthority.create(options.ca, os.urandom, _passphrase(options))
    print(made.public.hex())


def _show(options: argparse.Namespace) -> None:
    with _opened(options) as authority:
        print(json.dumps(authority.describe(), indent=1))


def _revoke(options: argparse.Namespace) -> None:
    if not options.client:
        raise SettingsError("ca revoke: want the numbers of clients")
    for client in options.client:
        if not _is_client(client):
            raise SettingsError(f"ca revoke: {client}, want the number of a client")
    with _opened(options) as authority:
        revoked = authority.revoke(set(options.client), time.time()).revoked
    print(f"list {revoked.number}: {len(revoked.serials)} revoked")


def _rotate(options: argparse.Namespace) -> None:
    with _opened(options) as authority:
        link = authority.rotate(os.urandom)
        print(f"key {link.number}: {authority.public.hex()}")


def _sign(options: argparse.Namespace) -> None:
    if not options.server:
        raise SettingsError("ca sign: want --server and --token")
    if options.watch is not None and not 0 < options.watch <= _MOST_WATCH_S:
        raise SettingsError(f"--watch {options.watch:g}: want seconds above 0, a day at the most")
    if not 1 <= options.days <= MOST_DAYS:
        raise SettingsError(f"--days {options.days}: want 1 to {MOST_DAYS}")
    command = words_of("--attest", options.attest)
    check_command(command)
    tls = options.tls_ca, options.tls_cert
    with Operator(options.server, options.token, *tls) as operator:

        def once() -> None:
            with _opened(options) as authority:  # anew: others revoke and rotate meanwhile
                sign(authority, operator, options.days, command)

        if options.watch is None:
            once()
        else:
            keep_on(once, options.watch, threading.Event())


def keep_on(work: Callable[[], None], every_s: float, stop: threading.Event) -> None:
    """Work again and again until `stop` is set; later and later while the server is away.

    raises FlError where it is not that, and would go wrong again
    """
    failures = 0
    while not stop.is_set():
        try:
            work()
            failures = 0
        except (ServerUnreachable, ServerRefused, Malformed) as error:
            # What a server refuses that is there and well, it would refuse again.
            if isinstance(error, ServerRefused) and error.status < 500 and error.status != 429:
                raise
            failures += 1
            progress(f"ms-serve ca: {error}")
        longest = max(every_s, _LONGEST_PAUSE_S)
        pause = min(every_s * 2.0 ** min(failures, 30), longest)
        stop.wait(pause * random.uniform(0.75, 1.0) if failures else pause)


def sign(
    authority: CertificateAuthority, operator: Operator, days: int, command: Sequence[str]
) -> tuple[int, int]:
    """Hand in all that a server waits for; how many devices were certified and refused. A device
    that the command cannot tell about goes on waiting.

    raises ServerUnreachable, ServerRefused, Malformed, SettingsError
    """
    found = operator.ca_requests()
    authority.revoke(_numbers(found["revoked"]), time.time())
    newest = authority.public.hex(), authority.revocations.revoked.number
    if (found["public"], found["revocation_list"]) != newest:
        operator.ca_publish(authority.handovers, authority.revocations)
    certified, refused, last = 0, 0, -1
    while asked := [parse_request(entry) for entry in _listed(found["requests"])]:
        numbers = [last, *(request.client for request in asked)]
        if not all(a < b for a, b in pairwise(numbers)):
            raise Malformed("the server tells requests in no order")
        last = numbers[-1]
        certificates, none = _decide(authority, asked, days, command)
        if certificates or none:
            operator.ca_answer(certificates, none)
        certified, refused = certified + len(certificates), refused + len(none)
        found = operator.ca_requests(last)
    if certified or refused:
        print(f"{certified} certified, {refused} refused", flush=True)
    return certified, refused


def _decide(
    authority: CertificateAuthority, asked: list[Request], days: int, command: Sequence[str]
) -> tuple[list[Certificate], list[int]]:
    certificates, refused = [], []
    for request in asked:
        try:
            certificates.append(authority.certify(request, time.time(), days, command))
        except SettingsError:
            raise
        except HookFailed as error:
            progress(printable(f"client {request.client} waits: {error}"))
        except FlError as error:
            refused.append(request.client)
            progress(printable(f"client {request.client} refused: {error}"))
    return certificates, refused


def _listed(found: Any) -> list[Any]:
    """raises Malformed"""
    if not isinstance(found, list):
        raise Malformed("the server tells no list of who waits, or of who is revoked")
    return found


def _numbers(found: Any) -> set[int]:
    """Numbers of clients as a server tells them.     raises Malformed"""
    for number in _listed(found):
        if not _is_client(number):
            raise Malformed(
                f"the server says that {number!r} is revoked; want the number of a client"
            )
    return set(found)


def _is_client(number: Any) -> bool:
    return isinstance(number, int) and 0 <= number < 2**31


def _passphrase(options: argparse.Namespace) -> str:
    if options.passphrase_file is None:
        return ""
    try:
        word = read_word(options.passphrase_file)
    except ValueError:
        word = ""
    if not 0 < len(word.encode()) <= _MOST_PASSPHRASE:
        want = f"no passphrase of 1 to {_MOST_PASSPHRASE} bytes"
        raise SettingsError(f"{options.passphrase_file}: {want}")
    return word


_ACTIONS: dict[str, Callable[[argparse.Namespace], None]] = {
    "init": _init,
    "sign": _sign,
    "revoke": _revoke,
    "rotate": _rotate,
    "show": _show,
}
