"""A plan: what a device sends beside the change of its weights, and in which coordinates.

Everything that is sent is in the one vector that secure aggregation sums, so that a server learns
of it what it learns of an update: the mean over a shard. A plan is bound into the session by the
digest of the model, so that two devices that are told two plans have no session in common.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from fl_server.errors import EncodingMismatch
from fl_server.plan.coordinates import Doubles, chosen, padded, rotate, rotate_back
from fl_server.secagg import labels
from fl_server.secagg.encode import Floats
from fl_server.secagg.keys import hashed, model_digest
from fl_server.secagg.messages import Context
from fl_server.secagg.wire import F64, U8, U32, Message, Sized, Utf8

MOST_LOCAL_BYTES = 256


@dataclass(frozen=True)
class Plan(Message):
    """control_scale: where above 0, the change of the device's control variate is sent behind the
    update, times this (SCAFFOLD) · controls: the digest of the server's control variate, empty
    where that is zero · unmasked: 1 where the server sees each update · local: patterns of the
    names of weights that stay on the device (FedPer), a line each · kept: the share of coordinates
    that are sent, others of them for all weights · rotated: 1 where they are those of a randomly
    rotated vector · generation: control variates of another one are zero, the device's as well as
    the server's
    """

    control_scale: F64 = 0.0
    controls: Annotated[bytes, Sized(32)] = b""
    unmasked: U8 = 0
    local: Annotated[str, Utf8(MOST_LOCAL_BYTES)] = ""
    kept: F64 = 1.0
    rotated: U8 = 0
    generation: U32 = 0

    @classmethod
    def of(cls, offered: bytes) -> Plan:
        """The plan of an offer, where nothing is plain training.

        raises Malformed, EncodingMismatch
        """
        plan = cls.from_bytes(offered) if offered else cls()
        plan.check()
        if plan.offered != offered:
            raise EncodingMismatch("a plan that asks for nothing; want none in the offer")
        return plan

    @property
    def is_taught(self) -> bool:
        """Whether it asks something of training itself."""
        return self.control_scale > 0 or bool(self.local)

    @property
    def locals(self) -> list[str]:
        """The patterns of weights that stay on the device."""
        return self.local.splitlines()

    @property
    def offered(self) -> bytes:
        """What an offer says: nothing where there is nothing to say."""
        return b"" if self == Plan() else self.to_bytes()

    def check(self) -> None:
        """Nothing, if the numbers make sense, and no other numbers ask for the same.

        raises EncodingMismatch
        """
        if not 0 < self.kept <= 1:
            raise EncodingMismatch(f"a plan that keeps {self.kept:g} of all coordinates")
        for name in ("unmasked", "rotated"):
            if getattr(self, name) > 1:
                raise EncodingMismatch(f"a plan with {name} {getattr(self, name)}, want 0 or 1")
        if not 0 <= self.control_scale < math.inf or len(self.controls) not in (0, 32):
            raise EncodingMismatch(
                f"a plan with control_scale {self.control_scale:g} and {len(self.controls)} bytes "
                "of digest; want 0 or more, and 0 or 32"
            )
        if self.control_scale == 0 and (self.controls or math.copysign(1, self.control_scale) < 0):
            raise EncodingMismatch(
                f"a plan with control_scale {self.control_scale:g} and {len(self.controls)} bytes "
                "of digest; without control variates want 0 and none"
            )
        if self.generation and not self.control_scale:
            raise EncodingMismatch(
                f"a plan of generation {self.generation}, want 0 without control variates"
            )

    def model_digest(self, model: bytes, weights: bytes) -> bytes:
        """What a session is about: the digests of model and weights, and a plan if there is one."""
        plain = model_digest(model, weights)
        return hashed(labels.PLAN, plain, self.to_bytes()) if self.offered else plain

    def seed(self, context: Context) -> bytes:
        """What the coordinates follow from: public, and the same for all who train from the same
        weights, whichever round their update goes into."""
        return hashed(labels.COORDINATES, context.model)

    def sent(self, length: int) -> int:
        """Coordinates that a device sends of `length` weights.     raises EncodingMismatch"""
        size = self._size(length)
        sent = math.ceil(self.kept * size)
        if self.kept < 1 and sent == size:
            raise EncodingMismatch(f"a plan that keeps {self.kept} of {size} coordinates, so all")
        return sent

    def pack(self, update: Floats, controls: Floats | None, seed: bytes) -> Floats:
        """What a device sends     update, controls: float32 [d] -> float32 [sent(d)]"""
        if not self.control_scale and not self.rotated and self.kept == 1:
            return update
        parts = update.astype(np.float64)
        if self.control_scale:
            assert controls is not None, "the plan has control variates"
            parts = np.concatenate([parts, controls * self.control_scale])
        if self.rotated:
            parts = rotate(parts, seed)
        if self.kept < 1:
            parts = parts[chosen(self.sent(update.size), parts.size, seed)]
        return parts.astype(np.float32)

    def unpack(self, mean: Doubles, length: int, seed: bytes) -> Doubles:
        """The mean update, and behind it that of the control variates where there are any

        mean: float64 [sent(d)] -> [d], or [2 d]. Over the choices of coordinates it is unbiased:
        those that were sent count for the others.
        """
        parts, size = mean, self._size(length)
        if self.kept < 1:
            parts = np.zeros(size)
            parts[chosen(mean.size, size, seed)] = mean * (size / mean.size)
        if self.rotated:
            parts = rotate_back(parts, self._parts(length), seed)
        if self.control_scale:
            parts = np.concatenate([parts[:length], parts[length:] / self.control_scale])
        return parts

    def _parts(self, length: int) -> int:
        return 2 * length if self.control_scale else length

    def _size(self, length: int) -> int:
        parts = self._parts(length)
        return padded(parts) if self.rotated else parts
