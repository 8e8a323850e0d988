"""A device: from enrolment to the reveal of each round, over one connection and one folder."""

from __future__ import annotations

import logging
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from fl_server import messages as wire
from fl_server.authority.handover import follow, parse_chain
from fl_server.conditions import Conditions
from fl_server.device.http import Http
from fl_server.device.journal import (
    Journal,
    keep_certificate,
    load_certificate,
    load_identity,
    lock_folder,
)
from fl_server.device.learning import Learning
from fl_server.device.trainer import Trainer
from fl_server.errors import (
    BadCertificate,
    CohortTooSmall,
    EncodingMismatch,
    FlError,
    Malformed,
    ModelMismatch,
    ServerRefused,
    ServerUnreachable,
    SpentUpdate,
    StaleRound,
    TrainingFailed,
)
from fl_server.plan.plan import Plan
from fl_server.secagg.certificate import check_certificate
from fl_server.secagg.client import Advertised, Member, join
from fl_server.secagg.encode import Update
from fl_server.secagg.keys import RandomBytes, model_digest
from fl_server.secagg.policy import Policy
from fl_server.secagg.run import Stage
from fl_server.storage.files import write_file

_log = logging.getLogger(__name__)


@dataclass
class Report:
    """How a round went for one device.

    outcome: "done", "stopped" (stop_after) or "failed" with `error` · stage: the last one that the
    server acknowledged · seconds: by step, waiting included
    """

    task: str
    round: int
    outcome: str = "failed"
    stage: str = ""
    error: str = ""
    loss: float = 0.0
    bytes_up: int = 0
    bytes_down: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


class Device:
    """Takes part in rounds.

    server: the server's address · folder: identity, certificate, journal, downloaded models ·
    authority: the enrolment authority's public key, pinned · stop_after: vanish once this stage's
    message is acknowledged · on_stage: called after each acknowledged stage · stop: ends `run` ·
    tell: hears in a line what the device is at · tls: how the server is known, and the device
    to it · conditions: what is said of the device whenever it asks for work · attest: the
    platform's attestation of the device's public key (32 bytes), at most 16384 bytes
    """

    def __init__(
        self,
        server: str,
        folder: Path | str,
        trainer: Trainer,
        authority: bytes,
        enrol_token: str = "",
        population: str = "default",
        policy: Policy | None = None,
        stop_after: Stage | None = None,
        on_stage: Callable[[Stage], None] = lambda stage: None,
        random: RandomBytes = os.urandom,
        clock: Callable[[], float] = time.time,
        patience_s: float = 120.0,
        stop: threading.Event | None = None,
        tell: Callable[[str], None] = lambda text: None,
        tls: ssl.SSLContext | None = None,
        conditions: Callable[[], Conditions] = Conditions,
        attest: Callable[[bytes], bytes] = lambda public_key: b"",
    ) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._authority = authority
        self._enrol_token = enrol_token
        self._population = population
        self._policy = policy or Policy()
        self._stop_after = stop_after
        self._on_stage = on_stage
        self._random = random
        self._clock = clock
        self._stop = stop or threading.Event()
        self._tell = tell
        self._conditions = conditions
        self._attest = attest
        self._lock = lock_folder(self.folder)
        try:
            self._identity = load_identity(self.folder, random)
            self._journal = Journal(self.folder / "journal.json")
            self._http = Http(server, self._identity, patience_s, self._stop, tls)
            self._learning = Learning(trainer, self._http, self.folder)
            chain = self.folder / "handovers"
            if chain.exists():
                self._authority = follow(authority, parse_chain(chain.read_bytes()))
        except BaseException:
            self._lock.close()
            raise
        self._member: Member | None = None
        self._broken: TrainingFailed | None = None
        # Rounds that were begun or declined; none is begun twice.
        self._tried: set[tuple[str, int]] = set()
        # The last round of each task that was declined, the newest at the end.
        self._declined: dict[str, int] = {}

    @property
    def id(self) -> int:
        """The number by which the server knows this device; 0 before enrolment."""
        return self._http.client_id

    def enrol(self) -> None:
        """Get a certificate, or use the one in the folder while it is valid.     raises FlError"""
        certificate, now = load_certificate(self.folder), self._clock()
        if certificate is None or certificate.subject.not_after < now:
            token, attestation = os.fsencode(self._enrol_token), self._attest(self._identity.public)
            message = wire.Enrol.of(self._identity, self._population, token, attestation)
            enrolled = wire.Enrolled.from_bytes(self._http.enrol(message.to_bytes()))
            certificate = enrolled.certificate
            if enrolled.authority != self._authority:
                self._follow_authority()
        subject = certificate.subject
        check_certificate(
            self._authority, certificate, subject.tenant, self._population, now, set()
        )
        if subject.public_key != self._identity.public:
            raise BadCertificate("the certificate is of another identity than this device's")
        keep_certificate(self.folder, certificate)
        self._http.client_id = subject.client
        self._tell(f"enrolled as device {subject.client}")
        self._member = Member(self._identity, certificate, self._authority)

    def _follow_authority(self) -> None:
        """Go on to the key that the pinned one has handed over to, if it has."""
        chain = self._http.call("GET", "/authority", signed=False) or b""
        found = follow(self._authority, parse_chain(chain))
        if found != self._authority:
            self._tell(f"the authority has handed over to key {found.hex()}")
            write_file(self.folder / "handovers", chain)
            self._authority = found

    def _check_in(self, ask: bytes) -> wire.CheckInReply:
        """What the server answers; a certificate of an older key of the authority is renewed."""
        query = self._conditions().to_query()
        path = f"/checkin?{query}" if query else "/checkin"
        declined = wire.declined_text(self._declined.items())
        told = {wire.DECLINED: declined} if declined else {}
        try:
            answer = self._http.call("POST", path, ask, told=told)
        except ServerRefused as refused:
            if refused.kind != "CertificateNeeded":
                raise
            (self.folder / "certificate").unlink(missing_ok=True)
            self.enrol()
            answer = self._http.call("POST", path, ask, told=told)
        return wire.CheckInReply.from_bytes(answer or b"")

    def run(self, rounds: int | None = None, until_idle: bool = False) -> Iterator[Report]:
        """Take part in rounds, each with its report; ends after `rounds` that went well, when told
        to stop, or, with `until_idle`, when the server has no task for it. What goes wrong in the
        protocol is in the report; a lost server and training that fails are raised, after which
        this may be called again: other models may train.

        raises ServerUnreachable, TrainingFailed, BadCertificate
        """
        done = 0
        while rounds is None or done < rounds:
            offer = self._await_offer(until_idle)
            if offer is None:
                return
            report = self._take_part(offer)
            yield report
            if self._broken is not None:
                raise self._broken
            done += report.outcome == "done"
            if report.outcome == "stopped":
                return

    def close(self) -> None:
        self._http.close()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _await_offer(self, until_idle: bool) -> wire.Offer | None:
        if self._member is None:
            self.enrol()
        ask = wire.CheckIn("", 0, b"").to_bytes()
        while not self._stop.is_set():
            reply = self._check_in(ask)
            if reply.kind == wire.OFFER:
                offer = wire.Offer.from_bytes(reply.body)
                task, number = offer.context.task, offer.context.round
                self._declined.pop(task, None)
                if self._is_open_to_me(offer):
                    return offer
                self._declined[task] = number
            if reply.kind == wire.IDLE and until_idle:
                return None
            if self._stop.wait(self._http.wait_s(reply.retry_ms / 1000)):
                break
        return None

    def _is_open_to_me(self, offer: wire.Offer) -> bool:
        """Whether this device may join; a server that lost its memory may offer what it may not."""
        place = offer.context.task, offer.context.round
        if place in self._tried:
            return False
        self._tried.add(place)
        try:
            unmasked = bool(Plan.of(offer.plan).unmasked)
            self._policy.check_offer(offer.min_cohort, offer.encoding, unmasked)
            self._learning.check(offer.plan)
            for digest in (model_digest(offer.model, offer.weights), offer.context.model):
                self._journal.check_unspent(offer.context.task, digest)
            self._journal.check_newer(offer.context.task, offer.context.round)
        except (CohortTooSmall, EncodingMismatch, Malformed, SpentUpdate, StaleRound) as error:
            _log.info("device %d: offer declined: %s", self.id, error)
            self._tell(f"round {place[1]} of {place[0]} declined: {error}")
            return False
        return True

    def _take_part(self, offer: wire.Offer) -> Report:
        """One round, whatever becomes of it.     raises ServerUnreachable"""
        self._broken = None
        report = Report(offer.context.task, offer.context.round)
        before_up, before_down = self._http.traffic.up, self._http.traffic.down
        try:
            update = self._train(offer, report)
            self._aggregate(offer, update, report)
        except ServerUnreachable:
            raise
        except FlError as error:
            if _finished_without_me(error, report):
                report.outcome = "done"
            else:
                self._broken = error if isinstance(error, TrainingFailed) else None
                report.error = f"{type(error).__name__}: {error}"
                _log.warning("device %d: round %d: %s", self.id, report.round, report.error)
        report.bytes_up = self._http.traffic.up - before_up
        report.bytes_down = self._http.traffic.down - before_down
        return report

    def _train(self, offer: wire.Offer, report: Report) -> Update:
        with _timed(report, "download"):
            fetched = self._learning.fetch(offer)
        with _timed(report, "train"):
            update = self._learning.learn(offer, self.id, *fetched)
        report.loss = update.loss
        return update

    def _aggregate(self, offer: wire.Offer, update: Update, report: Report) -> None:
        """Join the round that was offered; where it has filled, one on the same weights."""
        assert self._member is not None, "only enrolled devices are offered rounds"
        unmasked = self._policy.unmasked and bool(Plan.of(offer.plan).unmasked)
        policy = replace(self._policy, unmasked=unmasked)
        trained = model_digest(offer.model, offer.weights)
        later: wire.Offer | None = offer
        while later is not None:
            offer, report.round = later, later.context.round
            arguments = offer.context, offer.encoding, policy, self._journal, self._random, trained
            joined = join(self._member, *arguments)
            self._tell(
                f"joining round {report.round} of {report.task}, which waits for "
                f"{offer.target_cohort} devices ({offer.min_cohort} at the least)"
            )
            try:
                later = self._stages(joined, offer, update, report)
            finally:
                joined.abort()

    def _stages(
        self, joined: Advertised, offer: wire.Offer, update: Update, report: Report
    ) -> wire.Offer | None:
        """Advertise, share, upload, agree, reveal: each message once, or again the same. An offer
        comes out if the update goes into another round."""
        with _timed(report, "advertise"):
            path = self._advertise(joined, offer)
            if isinstance(path, wire.Offer):
                return path
            if self._acknowledged(Stage.ADVERTISE, report):
                return None
            shared = joined.receive_cohort(self._http.poll(f"{path}/adverts"), self._clock())
        with _timed(report, "share"):
            self._http.call("PUT", f"{path}/shares", shared.message)
            if self._acknowledged(Stage.SHARE, report):
                return None
            boxes = self._http.poll(f"{path}/shares")
        with _timed(report, "mask"):
            masked = shared.receive_shares(boxes, update, self._learning.hears(offer))
        with _timed(report, "vector"):
            self._http.upload(f"{path}/vector", masked.message, masked.digest)
            if self._acknowledged(Stage.VECTOR, report):
                return None
            survivors = self._http.poll(f"{path}/survivors")
        with _timed(report, "agree"):
            agreed = masked.receive_survivors(survivors)
            self._http.call("PUT", f"{path}/agree", agreed.message)
            if self._acknowledged(Stage.AGREE, report):
                return None
            agreements = self._http.poll(f"{path}/agreements")
        with _timed(report, "reveal"):
            revealed = agreed.receive_agreements(agreements)
            self._http.call("PUT", f"{path}/reveal", revealed.message)
            report.outcome, report.stage = "done", Stage.REVEAL.name.lower()
        self._on_stage(Stage.REVEAL)
        return None

    def _advertise(self, joined: Advertised, offer: wire.Offer) -> str | wire.Offer:
        """The path of the session that the advert led to, or another round for the same update.

        raises ProtocolError where that round is not for it
        """
        context = offer.context
        message = wire.CheckIn(context.task, context.round, joined.message).to_bytes()
        while True:
            reply = wire.CheckInReply.from_bytes(
                self._http.call("POST", "/checkin", message) or b""
            )
            if reply.kind == wire.SESSION:
                return f"/sessions/{reply.body.hex()}"
            if reply.kind == wire.OFFER:
                later = wire.Offer.from_bytes(reply.body)
                if replace(later.context, round=context.round) != context:
                    raise ModelMismatch("the round offered in its place is of another model")
                if later.encoding != offer.encoding:
                    raise EncodingMismatch("the round offered in its place encodes otherwise")
                self._policy.check_offer(later.min_cohort, later.encoding)
                return later
            if self._stop_after == Stage.ADVERTISE:
                return ""
            # A server holds the request for as long as it likes; then the next one may follow.
            self._http.pause(0)

    def _acknowledged(self, stage: Stage, report: Report) -> bool:
        """Whether the device vanishes after this stage."""
        report.stage = stage.name.lower()
        self._on_stage(stage)
        if stage == self._stop_after:
            report.outcome = "stopped"
        return stage == self._stop_after


def _finished_without_me(error: FlError, report: Report) -> bool:
    """Whether the others revealed enough before this device did; its vector is in the sum."""
    finished = isinstance(error, ServerRefused) and error.kind == "RoundFinished"
    return finished and report.stage in ("vector", "agree")


@contextmanager
def _timed(report: Report, step: str) -> Iterator[None]:
    start = time.perf_counter()
    try:
        yield
    finally:
        report.seconds[step] = round(time.perf_counter() - start, 4)
