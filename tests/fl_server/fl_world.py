"""People who call a server by hand, and rounds without HTTP whose clock is the test's own."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
from fl_fleet import LENGTH, MODEL
from fl_people import seeded

from fl_server import messages as wire
from fl_server.access.clients import Caller, Clients
from fl_server.access.tokens import Tokens
from fl_server.authority.enrolment import Authority
from fl_server.rounds import record
from fl_server.rounds.rounds import Rounds
from fl_server.rounds.uploads import Uploads
from fl_server.secagg import labels
from fl_server.secagg.client import Advertised, Member, join
from fl_server.secagg.encode import Update
from fl_server.secagg.keys import Identity
from fl_server.secagg.policy import Memory, Policy
from fl_server.settings import Settings
from fl_server.storage.store import Store
from fl_server.task_settings import TaskSettings

T = TypeVar("T")
START = np.zeros(LENGTH, np.float32)


def identity_of(name: bytes) -> Identity:
    return Identity(name.ljust(32, b"."))


def enrolment(
    identity: Identity, token: bytes, signer: Identity | None = None, attestation: bytes = b""
) -> wire.Enrol:
    made = wire.Enrol.of(identity, "default", token, attestation)
    if signer is None:
        return made
    return replace(made, signature=signer.sign(labels.ENROL, made.asked.signed))


def signed_headers(name: bytes, client: int, counter: int, method: str, path: str, body=b""):
    signed = wire.request_signed(method, path, counter, body)
    signature = identity_of(name).sign(labels.REQUEST, signed).hex()
    return {"authorization": f"MS1 {client} {counter} {signature}"}


def connection(server) -> socket.socket:
    port = int(server.url.rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port), timeout=60)


class NeverTrains:
    def train(self, weights, model):
        raise AssertionError("a task that is declined was trained")


class World:
    """A store, its rounds and some enrolled members; `now` is set by the test."""

    seed = "world"

    def __init__(self, folder: Path, database: str = "", files: str = "", **task: object) -> None:
        self.now = 1000.0
        self.files = files
        self.settings = Settings(folder, clock=lambda: self.now, random=seeded(self.seed))
        self.store = Store(folder, database, files)
        self.authority = Authority(bytes(32))
        self.restart()
        self.joined: dict[Caller, Advertised] = {}
        self.digest = self.store.put_blob(MODEL)
        self.rounds.create_task(TaskSettings(name="t", **task), self.digest, START)

    def restart(self) -> None:
        tokens = Tokens(self.store, self.settings, "admin", "token")
        self.clients = Clients(self.store, self.authority, self.settings, tokens)
        self.rounds = Rounds(self.store, self.clients, self.settings)
        self.uploads = Uploads(self.rounds, self.store)
        self.rounds.resume()

    def close(self) -> None:
        self.store.close()

    def enrol(self, i: int) -> tuple[Member, Caller]:
        identity = Identity(bytes([i + 1]) * 32)
        certificate = self.clients.enrol(enrolment(identity, b"token")).certificate
        member = Member(identity, certificate, self.authority.public)
        return member, Caller(member.id, "default", certificate)

    def join(self, i: int):
        """Advertise for the open round; the state of the client comes out."""
        member, caller = self.enrol(i)
        reply = self.rounds.check_in(caller, wire.CheckIn("", 0, b""))
        offer = wire.Offer.from_bytes(reply.body)
        arguments = Policy(2), Memory(), seeded(i)
        state = join(member, offer.context, offer.encoding, *arguments)
        context = offer.context
        answer = self.rounds.check_in(
            caller, wire.CheckIn(context.task, context.round, state.message)
        )
        self.joined[caller] = state
        return caller, state, answer

    def play(self, call: Callable[[Callable[[], T]], T] = lambda work: work()) -> None:
        """Let all who have joined go through the round; `call` calls the server."""
        updates = {c: Update(np.full(LENGTH, 0.25, np.float32), 1, 0.5, 1, 2) for c in self.joined}
        states, number = dict(self.joined), self.rounds.live("t").number
        for caller, state in states.items():
            again = wire.CheckIn("t", number, state.message)
            reply = call(lambda c=caller, m=again: self.rounds.check_in(c, m))
            session = reply.body.hex()
        for after, stage, step in (
            ("advertise", "share", lambda c, s, r: s.receive_cohort(r, self.now)),
            ("share", "vector", lambda c, s, r: s.receive_shares(r, updates[c])),
            ("vector", "agree", lambda c, s, r: s.receive_survivors(r)),
            ("agree", "reveal", lambda c, s, r: s.receive_agreements(r)),
        ):
            for caller, state in states.items():
                reply = call(lambda c=caller, a=after: self.rounds.get(c, session, a))
                states[caller] = step(caller, state, reply)
            for caller, state in states.items():
                message = state.message
                call(lambda c=caller, st=stage, m=message: self.rounds.put(c, session, st, m))

    def stages(self) -> list[str]:
        return [entry["stage"] for entry in record.of_task(self.store, "t")]
