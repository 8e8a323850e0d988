"""Differences of weights on the server: one device that asks for many holds up no other."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fl_fleet import MODEL, serving, task_settings

from fl_server.device import Device, Policy
from fl_server.device.http import Http
from fl_server.device.linear import synthetic_device
from fl_server.errors import NotFound, ServerRefused
from fl_server.storage.differences import Differences, patched
from fl_server.storage.store import Store
from fl_server.storage.weights import weights_bytes

LENGTH = 4000


def versions(count: int) -> list[np.ndarray]:
    return [np.full(LENGTH, 1 + i / 8, np.float32) for i in range(count)]


@pytest.fixture
def made(tmp_path):
    store = Store(tmp_path)
    found = Differences(store)
    yield store, found
    found.close()
    store.close()


def test_whoever_asks_for_the_same_one_waits_and_others_are_refused_at_once(made):
    store, differences = made
    blobs = [weights_bytes(v) for v in versions(4)]
    digests = [store.put_blob(blob) for blob in blobs]
    gate, calls = threading.Event(), []
    make = differences._make
    differences._make = lambda *pair: (gate.wait(), calls.append(pair), make(*pair))[2]

    async def crowd() -> list[object]:
        asked = [(0, 3), (1, 3), (0, 3), (2, 3), (1, 3)]
        asking = [asyncio.create_task(differences.of(digests[a], digests[b])) for a, b in asked]
        await asyncio.sleep(0)
        asking[0].cancel()  # the third waits for the same one
        gate.set()
        return await asyncio.gather(*asking, return_exceptions=True)

    gone, first, again, other, second = asyncio.run(crowd())
    assert isinstance(gone, asyncio.CancelledError)
    assert isinstance(other, NotFound)
    assert patched(blobs[0], again) == patched(blobs[1], first) == blobs[3]
    assert first is second
    assert calls == [(digests[0], digests[3]), (digests[1], digests[3])]


def test_few_are_kept_and_none_that_failed(made):
    store, differences = made
    digests = [store.put_blob(weights_bytes(v)) for v in versions(7)]
    short = store.put_blob(bytes(8))

    async def ask() -> None:
        for base in digests[:-1]:
            await differences.of(base, digests[-1])
        with pytest.raises(NotFound, match="no weights of the same length"):
            await differences.of(short, digests[-1])
        with pytest.raises(NotFound, match="nothing is kept under"):
            await differences.of(bytes(32), digests[-1])

    asyncio.run(ask())
    # What failed took the place of one.
    assert list(differences._made) == [(base, digests[-1]) for base in digests[3:-1]]


def test_a_device_that_asks_for_many_keeps_no_other_from_its_weights(tmp_path):
    gate = threading.Event()
    with serving(tmp_path) as server, server.operator() as operator:
        weights = versions(5)
        operator.create_task("t", MODEL, weights[0], **task_settings(2, min_cohort=2))
        service, digests = server.service, []
        with service.store.begin() as db:
            for values in weights[1:]:
                digests.append(service.rounds.weights.add(db, "t", values, 0).digest)
        service.rounds.begin_anew("there are newer weights")
        newest, make = digests[-1], service.differences._make
        service.differences._make = lambda *pair: (gate.wait(30), make(*pair))[1]
        devices = [
            Device(server.url, tmp_path / f"d{i}", synthetic_device(i), server.authority,
                   server.enrol_token, policy=Policy(2))
            for i in range(2)
        ]  # fmt: skip
        for device in devices:
            device.enrol()
        greedy, other = devices

        def ask(base: bytes) -> bytes:
            http = Http(server.url, greedy._identity, 60.0)
            http.client_id = greedy.id
            found = http.call("GET", f"/models/{newest.hex()}?base={base.hex()}")
            http.close()
            return found or b""

        with pytest.raises(ServerRefused, match="no open round began from the weights"):
            greedy._http.call("GET", f"/models/{digests[0].hex()}?base={newest.hex()}")
        with ThreadPoolExecutor(2) as pool:
            asked = [pool.submit(ask, base) for base in digests[:2]]
            while len(service.differences._made) < 2:
                assert not any(each.done() for each in asked)
            # The others are still being made: this one is told so, and takes the whole.
            downloads, path = other._learning._downloads, tmp_path / "d1/weights"
            path.mkdir()
            downloads.weights(digests[2], "t")
            np.testing.assert_array_equal(downloads.weights(newest, "t"), weights[-1])
            assert not any(each.done() for each in asked)
            gate.set()
            changes = [each.result() for each in asked]
        for base, change in zip(weights[1:3], changes, strict=True):
            assert patched(weights_bytes(base), change) == weights_bytes(weights[-1])
        for device in devices:
            device.close()
