"""What others see of a device: every byte that it sends is typed, and no secret is logged."""

from __future__ import annotations

import base64
import logging
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from fl_fleet import LENGTH, MODEL, fleet_of, serving, task_settings
from fl_people import NOW, Table

from fl_server import errors
from fl_server import messages as wire
from fl_server.secagg.encode import Update
from fl_server.secagg.messages import Advert, Agree, Reveal, SharesUp, Vector
from fl_server.secagg.pack import pack, unpack
from fl_server.secagg.run import Stage
from fl_server.secagg.wire import Message, Seen

START = np.zeros(LENGTH, np.float32)
BODIES: dict[str, type[Message]] = {
    "/enrol": wire.Enrol,
    "/checkin": wire.CheckIn,
    "/shares": SharesUp,
    "/vector": Vector,
    "/agree": Agree,
    "/reveal": Reveal,
}
HEADERS = {
    "accept": r"\*/\*",
    "accept-encoding": "identity",
    "authorization": r"MS1 [0-9]+ [0-9]+ [0-9a-f]{128}",
    "connection": "keep-alive",
    "content-length": "[0-9]+",
    "content-type": wire.MEDIA_TYPE,
    "host": r"127\.0\.0\.1:[0-9]+",
    "user-agent": r"python-httpx/[0-9.]+",
}


class Watched:
    """A round of six devices, one of which vanishes, with all that they sent."""

    def __init__(self, folder: Path) -> None:
        self.requests: list[tuple[int, httpx.Request]] = []
        with serving(folder) as server, server.operator() as operator:
            settings = task_settings(6, vector_s=4, min_cohort=6)
            operator.create_task("watched", MODEL, START, **settings)
            self.fleet = fleet_of(server, folder, 6, stop_after={5: Stage.SHARE})
            for i, device in enumerate(self.fleet.devices):
                hooks = {"request": [lambda request, i=i: self.requests.append((i, request))]}
                device._http._client.event_hooks = hooks
            self.reports = self.fleet.run()
            (self.entry,) = operator.status("watched")["rounds"]

    def secrets(self) -> Iterator[bytes]:
        """All that a device drew or learnt, but for its nonces and the seed of its identity."""
        for i, drawn in enumerate(self.fleet.random):
            yield from (secret for secret in drawn.draws[1:] if len(secret) >= 32)
            delta = self.fleet.trainers[i].updates[0].delta
            yield delta.tobytes()
            yield delta.astype(np.float64).tobytes()


@pytest.fixture(scope="module")
def watched(tmp_path_factory) -> Iterator[tuple[Watched, Path, str]]:
    folder, lines = tmp_path_factory.mktemp("watched"), []
    listening = logging.Handler()
    listening.emit = lambda record: lines.append(f"{record.getMessage()} {record.args!r}")
    root = logging.getLogger()
    # A server that ran in this process before may have silenced its libraries.
    heard = [root, *map(logging.getLogger, ("httpx", "httpcore"))]
    levels = [logger.level for logger in heard]
    root.addHandler(listening)
    for logger in heard:
        logger.setLevel(logging.DEBUG)
    try:
        yield Watched(folder), folder, "\n".join(lines)
    finally:
        root.removeHandler(listening)
        for logger, level in zip(heard, levels, strict=True):
            logger.setLevel(level)


def test_every_byte_that_a_device_sends_is_public_or_hidden(watched):
    seen: set[Seen] = set()
    sent, _, _ = watched
    for _, request in sent.requests:
        assert re.fullmatch(r"/(enrol|checkin|models/\w{64}|sessions/\w{64}/\w+)", request.url.path)
        assert not request.url.query
        for name, value in request.headers.items():
            assert re.fullmatch(HEADERS[name], value), name
        body = request.read()
        if request.method == "GET":
            assert body == b""
            continue
        message = BODIES["/" + request.url.path.split("/")[-1]].from_bytes(body)
        spans = list(message.seen())
        assert b"".join(data for _, data in spans) == body
        seen |= {kind for kind, _ in spans}
        if isinstance(message, wire.CheckIn) and message.advert:
            advert = Advert.from_bytes(message.advert)
            assert {kind for kind, _ in advert.seen()} == {Seen.PUBLIC}
    assert seen == set(Seen)
    assert sent.entry["survivors"] == 5


def test_no_metric_or_weight_is_in_clear(watched):
    sent, _, _ = watched
    session = bytes.fromhex(sent.entry["session"])
    for i, request in sent.requests:
        if request.url.path.endswith("/vector"):
            params = Table(6, length=LENGTH, clip_norm=10.0, loss_cap=10.0).shares.session.params
            words = unpack(request.read(), params.encoding.total_length, params.ring_bits)
            plain = sent.fleet.encoded(i, params, session)
            assert np.count_nonzero(words == plain) <= 1  # by chance
    bodies = b"".join(request.read() for _, request in sent.requests)
    for trainer in sent.fleet.trainers[:5]:
        loss = trainer.updates[0].loss
        assert np.float64(loss).tobytes() not in bodies
        assert np.float32(loss).tobytes() not in bodies


def test_no_secret_is_in_what_is_sent_logged_or_kept(watched):
    sent, folder, log = watched
    places = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {"identity.key", "journal.json"} <= places.keys()
    assert log.count("\n") > 100
    places["what was logged"] = log.encode()
    places["what was sent"] = b"".join(request.read() for _, request in sent.requests)
    forms = (bytes, lambda x: x.hex().encode(), base64.b64encode, lambda x: repr(x).encode())
    count = 0
    for secret in sent.secrets():
        for form in forms:
            needle = form(secret[:24])  # the first of many secrets, too, would be one
            count += 1
            for name, content in places.items():
                assert needle not in content, f"a secret is in {name}"
    assert count > 6 * 6 * len(forms)
    # Such a search finds what is there.
    assert sent.fleet.random[0].draws[0][:24] in (folder / "device-0" / "identity.key").read_bytes()


def test_the_numbers_of_an_update_are_not_logged_either(watched):
    sent, _, log = watched
    for trainer in sent.fleet.trainers:
        for number in trainer.updates[0].delta[:4]:
            assert f"{number:.5f}"[:-1] not in log


def test_secrets_have_no_text_and_no_pickle():
    table = Table(3)
    table.agree()
    secrets = [drawn for draws in table.draws.values() for drawn in draws if len(drawn) >= 32]
    hidden = [form for secret in secrets for form in (secret.hex(), repr(secret)[2:-1])]
    for i in table.ids:
        for state in (table.joined[i], table.shared[i], table.masked[i], table.agreed[i]):
            for text in (repr(state), str(vars(state)), repr(vars(state)["_client"])):
                assert not any(secret in text for secret in hidden)
            with pytest.raises(TypeError, match="not kept"):
                pickle.dumps(state._client.secrets)
    assert "delta" not in repr(Update(np.ones(3, np.float32)))


def test_a_vector_tells_nothing_of_where_an_update_is_zero():
    # Indices of a sparse update would be in clear, and masks would not cancel: all words travel.
    sizes = set()
    for share in (0.0, 0.01, 1.0):
        table = Table(3, length=400)
        for i in table.ids:
            delta = np.where(np.random.default_rng(i).random(400) < share, 0.5, 0.0)
            table.updates[i] = Update(delta.astype(np.float32))
        table.mask()
        sizes |= {len(table.masked[i].message) for i in table.ids}
        words = unpack(table.masked[table.ids[0]].message, 407, 18)
        assert len(np.unique(words)) > 400
    assert sizes == {len(pack(np.zeros(407, np.uint32), 18))}


def test_secrets_are_erased_after_the_reveal_and_on_abort():
    table = Table()
    table.agree()
    secrets = table.agreed[10]._client.secrets
    shares = [share for pair in secrets.shares.values() for share in pair]
    table.agreed[10].receive_agreements(table.reveals.reply)
    table.agreed[13].abort()
    for kept in (secrets, table.agreed[13]._client.secrets):
        assert kept.b == kept.mask_secret == kept.share_secret == bytes(32)
        assert not kept.shares
    assert not any(map(any, shares))


def test_a_round_that_was_given_up_is_not_gone_on_with():
    table = Table()
    table.share()
    state = table.shared[10]
    state.abort()
    with pytest.raises(errors.GivenUp, match="Shared: the secrets of this round are erased"):
        state.receive_shares(table.vectors.reply(10), table.updates[10])
    # What was answered before is answered again: nothing in it is new.
    assert table.joined[10].receive_cohort(table.shares.reply, NOW) is state
