"""What a device does between an offer and its advert: fetch, train as the plan says, pack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from fl_server import messages as wire
from fl_server.device.controls import Controls
from fl_server.device.downloads import Downloads
from fl_server.device.http import Http
from fl_server.device.local import LocalWeights
from fl_server.device.trainer import Follows, Measures, Trainer, Work
from fl_server.errors import EncodingMismatch, ModelMismatch, ServerRefused, TrainingFailed
from fl_server.plan.plan import Plan
from fl_server.secagg.encode import Doubles, Floats, Update

Result = TypeVar("Result")


class Learning:
    """folder: the device's own"""

    def __init__(self, trainer: Trainer, http: Http, folder: Path) -> None:
        self._trainer = trainer
        self._http = http
        self._downloads = Downloads(http, folder / "models", folder / "weights")
        self._controls = Controls(folder / "controls")
        self._local = LocalWeights(folder / "local")
        self._own: Floats | None = None  # the control variate that was trained with

    def check(self, offered: bytes) -> None:
        """Nothing, if the trainer can do what a plan asks.

        raises Malformed, EncodingMismatch
        """
        if Plan.of(offered).is_taught and not isinstance(self._trainer, Follows):
            raise EncodingMismatch("a plan is offered, and the trainer follows none")

    def fetch(self, offer: wire.Offer) -> tuple[bytes, Floats, Floats]:
        """The model, its weights float32 [d], and the server's control variate of that size.

        raises ModelMismatch, EncodingMismatch, Malformed
        """
        plan = Plan.of(offer.plan)
        model = self._downloads.model(offer.model)
        start = self._downloads.weights(offer.weights, offer.context.task)
        if offer.context.model != plan.model_digest(offer.model, offer.weights):
            raise ModelMismatch("the offer's digest is not that of its model, weights and plan")
        controls = np.zeros_like(start)
        if plan.controls:
            controls = self._downloads.vector(plan.controls)
        if controls.size != start.size:
            raise EncodingMismatch(f"{controls.size} control variates for {start.size} weights")
        return model, start, controls

    def learn(
        self, offer: wire.Offer, client: int, model: bytes, start: Floats, controls: Floats
    ) -> Update:
        """What is sent     raises TrainingFailed, EncodingMismatch, Malformed"""
        plan, length, seed = Plan.of(offer.plan), offer.encoding.length, _seed(offer)
        if length == 0 and plan.local and isinstance(self._trainer, Follows):
            follows, own = self._trainer, self._local.of_model(offer.model)
            work = Work(None, plan.locals, own)
            return _trained(lambda: follows.measure_own(start, model, work))
        if length == 0 and isinstance(self._trainer, Measures):
            measures = self._trainer
            return _trained(lambda: measures.measure(start, model))
        if plan.sent(start.size) != length:
            raise EncodingMismatch(
                f"{length} coordinates offered, the weights make {plan.sent(start.size)}"
            )
        if not isinstance(self._trainer, Follows) or not plan.is_taught:
            update = _trained(lambda: self._trainer.train(start, model))
            return replace(update, delta=plan.pack(update.delta, None, seed))
        return self._follow(self._trainer, offer, client, model, start, controls)

    def _follow(
        self,
        trainer: Follows,
        offer: wire.Offer,
        client: int,
        model: bytes,
        start: Floats,
        controls: Floats,
    ) -> Update:
        plan, task, seed = Plan.of(offer.plan), offer.context.task, _seed(offer)
        correction = None
        if plan.control_scale:
            self._controls.settle(task, client, lambda number: self._transcript(task, number))
            self._own = self._controls.own(task, plan.generation, start.size)
            correction = controls - self._own
        work = Work(correction, plan.locals, self._local.load(task, offer.model))
        trained = _trained(lambda: trainer.follow(start, model, work))
        if plan.local:
            self._local.keep(task, offer.model, trained.own)
        if not plan.control_scale:
            return replace(trained.update, delta=plan.pack(trained.update.delta, None, seed))
        update = trained.update
        # Option II: c_i - c + (x - y) / (K eta), of which the change is sent.
        change = -controls - update.delta / np.float32(trained.travel)
        return replace(update, delta=plan.pack(update.delta, change, seed))

    def hears(self, offer: wire.Offer) -> Callable[[Doubles], None] | None:
        """Who is to be told what an update has become, clipped and rounded, before it is sent."""
        plan, own = Plan.of(offer.plan), self._own
        if not plan.control_scale or own is None:
            return None

        def sent(vector: Doubles) -> None:
            # The server adds the mean of just these changes: c stays the mean of all c_i.
            change = plan.unpack(vector, own.size, _seed(offer))[own.size :]
            place = offer.context.task, plan.generation, offer.context.round
            self._controls.propose(*place, np.asarray(own + change, np.float32))

        return sent

    def _transcript(self, task: str, number: int) -> list[str]:
        try:
            path = f"/tasks/{task}/rounds/{number}/transcript"
            return (self._http.call("GET", path) or b"").decode(errors="replace").splitlines()
        except ServerRefused as refused:
            if refused.status != 404:
                raise
            return []  # a server that has lost the round has not counted it


def _seed(offer: wire.Offer) -> bytes:
    return Plan.of(offer.plan).seed(offer.context)


def _trained(train: Callable[[], Result]) -> Result:
    """raises TrainingFailed"""
    try:
        return train()
    except Exception as error:
        raise TrainingFailed(f"{type(error).__name__}: {error}") from error
