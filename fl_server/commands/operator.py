"""What an operator types: the words behind ms-serve that talk to a server which runs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl_server.access.scopes import SCOPES
from fl_server.console import add_tls, parser_of, printable, progress, read_word
from fl_server.errors import MissingExtra, SettingsError

if TYPE_CHECKING:
    from fl_server.operator import Operator

EXAMPLES = """\
  ms-serve --folder state                     serve; keys and tokens are made on the first start
  ms-serve task shoulder --folder state --model model.ms --rounds 5 --set target_cohort=24
  ms-serve status shoulder --folder state --json
  ms-serve token create grafana --scope metrics --days 365
  ms-serve audit --folder state               the log, its chain checked"""

# What the calls of Operator and TaskSettings take besides settings.
_GIVEN_OTHERWISE = {"self", "cls", "name", "model", "weights", "of", "version"}

Word = tuple[Callable[[], argparse.ArgumentParser], Callable[[argparse.Namespace], int]]


def words() -> dict[str, Word]:
    """By the word behind ms-serve, its parser and what it does."""
    return {
        "task": (_task_parser, _create_task),
        "status": (_status_parser, _show_status),
        "evaluate": (_evaluate_parser, _evaluate),
        "rollback": (_rollback_parser, _roll_back),
        "stop": (_stop_parser, _stop),
        "revoke": (_revoke_parser, _revoke),
        "token": (_token_parser, _tokens),
        "audit": (_audit_parser, _audit),
        "ca": (_ca_parser, _ca),
    }


def _evaluate_parser() -> argparse.ArgumentParser:
    parser = parser_of("ms-serve evaluate", "Measure weights on devices.", EXAMPLES)
    parser.add_argument("of", help="the task whose weights are measured")
    parser.add_argument("name", help="of the evaluation, which is a task, too")
    parser.add_argument("--weights", type=int, default=-1, help="their version; else the newest")
    add_settings(parser)
    return _add_server(parser)


def _rollback_parser() -> argparse.ArgumentParser:
    parser = parser_of("ms-serve rollback", "Go on from older weights.", EXAMPLES)
    parser.add_argument("name", help="the task")
    parser.add_argument("weights", type=int, help="the version to go back to")
    return _add_server(parser)


def _stop_parser() -> argparse.ArgumentParser:
    parser = parser_of("ms-serve stop", "End a task; its open round fails.", EXAMPLES)
    parser.add_argument("name", help="the task")
    return _add_server(parser)


def _revoke_parser() -> argparse.ArgumentParser:
    parser = parser_of("ms-serve revoke", "Let devices in no longer.", EXAMPLES)
    parser.add_argument("client", nargs="+", type=int, help="their numbers (ms-serve audit)")
    return _add_server(parser)


def _stop(options: argparse.Namespace) -> int:
    with _operator(options) as operator:
        show(operator.stop(options.name), options.json)
    return 0


def _revoke(options: argparse.Namespace) -> int:
    with _operator(options) as operator:
        for client in options.client:
            operator.revoke(client)
    print(f"{len(options.client)} revoked")
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    with _operator(options) as operator:
        settings = dict(options.set)
        status = operator.evaluate(options.name, options.of, options.weights, **settings)
    _show_made(status, options.json)
    return 0


def _roll_back(options: argparse.Namespace) -> int:
    with _operator(options) as operator:
        status = operator.roll_back(options.name, options.weights)
    show(status, options.json)
    return 0


def _token_parser() -> argparse.ArgumentParser:
    parser = parser_of("ms-serve token", "Tokens: make, list, revoke.", EXAMPLES)
    parser.add_argument("action", choices=["create", "list", "revoke"], help="what to do")
    parser.add_argument("name", nargs="?", help="the token's name; not for list")
    parser.add_argument(
        "--scope",
        action="append",
        default=[],
        choices=sorted(SCOPES),
        help="what it is good for; may be repeated",
    )
    parser.add_argument("--tenant", default="", help="sees this tenant alone; else all")
    parser.add_argument("--days", type=float, help="how long it is good; for ever if absent")
    return _add_server(parser)


def _audit_parser() -> argparse.ArgumentParser:
    parser = parser_of("ms-serve audit", "Who asked the server for what.", EXAMPLES)
    return _add_server(parser)


def _tokens(options: argparse.Namespace) -> int:
    if options.action != "list" and not options.name:
        raise SettingsError(f"token {options.action}: want a name")
    with _operator(options) as operator:
        if options.action == "create":
            given = options.name, options.scope, options.tenant, options.days
            print(operator.create_token(*given))
        elif options.action == "revoke":
            operator.revoke_token(options.name)
        else:
            _show_tokens(operator.tokens(), options.json)
    return 0


def _show_tokens(found: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(found, indent=1))
        return
    for token in found:
        end = token["expires_at"]
        until = "" if end is None else f" until {datetime.fromtimestamp(end, UTC):%Y-%m-%d}"
        tenant = f" of {token['tenant']}" if token["tenant"] else ""
        line = f"{token['name']}{tenant}: {token['state']}{until}, {' '.join(token['scopes'])}"
        print(printable(line))


def _audit(options: argparse.Namespace) -> int:
    from fl_server.storage.transcript import START, verify

    with _operator(options) as operator:
        found = operator.audit()
    verify(found, START)
    for line in found:
        entry = json.loads(line)
        if options.json:
            print(line)
            continue
        more = {k: v for k, v in entry.items() if k not in ("at", "who", "what", "previous")}
        when = f"{datetime.fromtimestamp(entry['at'], UTC):%Y-%m-%d %H:%M:%S}"
        text = " ".join(f"{name}={value}" for name, value in more.items())
        print(printable(f"{when} {entry['who']}: {entry['what']} {text}".rstrip()))
    return 0


def _task_parser() -> argparse.ArgumentParser:
    parser = parser_of("ms-serve task", "Start training a model.", EXAMPLES)
    parser.add_argument("name", help="the task's name")
    parser.add_argument(
        "--model", type=Path, required=True, metavar="M.ms", help="has a train entry"
    )
    parser.add_argument("--weights", type=Path, metavar="FILE", help="float32; else the model's")
    parser.add_argument("--rounds", type=int, default=1, help="(%(default)s)")
    add_settings(parser)
    return _add_server(parser)


def _status_parser() -> argparse.ArgumentParser:
    parser = parser_of("ms-serve status", "How tasks and rounds stand.", EXAMPLES)
    parser.add_argument("name", nargs="?", help="all tasks if absent")
    return _add_server(parser)


def _add_server(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    add_place(parser)
    parser.add_argument(
        "--server", default="http://127.0.0.1:8440", metavar="URL", help="(%(default)s)"
    )
    parser.add_argument("--token", default="", help="else read from the folder's admin.token")
    add_tls(parser)
    parser.add_argument("--json", action="store_true", help="all figures")
    return parser


def _create_task(options: argparse.Namespace) -> int:
    from fl_server.storage.weights import weights_vector

    model = options.model.read_bytes()
    if options.weights:
        weights = weights_vector(options.weights.read_bytes())
    else:
        from fl_server.device.weights import initial_weights

        weights = initial_weights(model, local_of(options.set))
    settings = {"rounds": options.rounds, **dict(options.set)}
    with _operator(options) as operator:
        status = operator.create_task(options.name, model, weights, **settings)
    _show_made(status, options.json)
    return 0


def _show_made(status: dict[str, Any], as_json: bool) -> None:
    for warning in status.get("warnings", ()):
        progress(f"ms-serve: warning: task {status['name']}: {warning}")
    show(status, as_json)


def _show_status(options: argparse.Namespace) -> int:
    with _operator(options) as operator:
        found = [operator.status(options.name)] if options.name else operator.tasks()
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        for status in found:
            show(status, False)
    return 0


def add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder", type=Path, default=Path("fl-state"), help="keys and state (%(default)s)"
    )


def add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        action="append",
        type=_setting,
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the task (docs/federated.md lists them); may be repeated",
    )


def local_of(settings: Sequence[tuple[str, Any]]) -> tuple[str, ...]:
    """The patterns of weights that stay on devices.     raises SettingsError"""
    from fl_server.task_settings import TaskSettings

    return TaskSettings.checked(name="any", **dict(settings)).local


def _setting(text: str) -> tuple[str, Any]:
    """The name and value of NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r}: want NAME=VALUE such as min_cohort=24")
    if name in _GIVEN_OTHERWISE:
        raise argparse.ArgumentTypeError(f"{name!r} is no setting that --set may give")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def _ca_parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _ca_words().ca_parser()
    return parser


def _ca(options: argparse.Namespace) -> int:
    code: int = _ca_words().ca(options)
    return code


def _ca_words() -> Any:
    try:
        from fl_server.commands import ca as ca_cli
    except ImportError as error:
        raise MissingExtra(f"pip install 'mindspan[server]': {error}") from None
    return ca_cli


def _operator(options: argparse.Namespace) -> Operator:
    """raises SettingsError, MissingExtra"""
    try:
        from fl_server.operator import Operator
    except ImportError as error:
        raise MissingExtra(f"pip install 'mindspan[server]': {error}") from None
    return Operator(options.server, _token(options), options.tls_ca, options.tls_cert)


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


def show(status: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(status, indent=1))
        return
    task = f"{status['name']}: {status['state']}, weights {status['version']} {status['error']}"
    print(printable(task))
    if spent := status["privacy"]:
        show_spent(spent)
    for entry in status["rounds"]:
        figures = entry.get("error") or ", ".join(
            f"{name} {entry[name]:.4g}"
            for name in ("loss", "correct", "examples", "survivors", "clients", "clip_norm")
            if name in entry
        )
        print(printable(f"  round {entry['number']}: {entry['stage']} {figures}".rstrip()))


def show_spent(spent: dict[str, Any]) -> None:
    cost = f"epsilon {spent['epsilon']:.3g} at delta {spent['delta']:g}"
    print(f"  spent: {cost}, in {spent['rounds']} rounds")
