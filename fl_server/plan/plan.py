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
import numpy.typing as npt

from fl_server.errors import EncodingMismatch
from fl_server.secagg import labels
from fl_server.secagg.encode import Floats
from fl_server.secagg.keys import hashed, model_digest
from fl_server.secagg.wire import F64, U8, Message, Sized, Utf8

Doubles = npt.NDArray[np.float64]

MOST_LOCAL_BYTES = 256


@dataclass(frozen=True)
class Plan(Message):
    """control_scale: where above 0, the change of the device's control variate is sent behind the
    update, times this (SCAFFOLD) · controls: the digest of the server's control variate, empty
    where that is zero · unmasked: 1 where the server sees each update ·
    local: patterns of the names of weights that stay on the device (FedPer), a line each
    """

    control_scale: F64 = 0.0
    controls: Annotated[bytes, Sized(32)] = b""
    unmasked: U8 = 0
    local: Annotated[str, Utf8(MOST_LOCAL_BYTES)] = ""

    @classmethod
    def of(cls, offered: bytes) -> Plan:
        """The plan of an offer, where nothing is plain training.

        raises Malformed, EncodingMismatch
        """
        plan = cls.from_bytes(offered) if offered else cls()
        plan.check()
        return plan

    @property
    def is_taught(self) -> bool:
        """Whether it asks something of training itself."""
        return self.control_scale > 0 or bool(self.local)

    @property
    def offered(self) -> bytes:
        """What an offer says: nothing where there is nothing to say."""
        return b"" if self == Plan() else self.to_bytes()

    def check(self) -> None:
        """Nothing, if the numbers make sense.     raises EncodingMismatch"""
        if not 0 <= self.control_scale < math.inf or len(self.controls) not in (0, 32):
            raise EncodingMismatch(
                f"a plan with control_scale {self.control_scale:g} and {len(self.controls)} bytes "
                "of digest; want 0 or more, and 0 or 32"
            )

    def model_digest(self, model: bytes, weights: bytes) -> bytes:
        """What a session is about: the digests of model and weights, and a plan if there is one."""
        plain = model_digest(model, weights)
        return hashed(labels.PLAN, plain, self.to_bytes()) if self.offered else plain

    def sent(self, length: int) -> int:
        """Coordinates that a device sends of `length` weights."""
        return self._parts(length)

    def pack(self, update: Floats, controls: Floats | None) -> Floats:
        """What a device sends     update, controls: float32 [d] -> float32 [sent(d)]"""
        if not self.control_scale:
            return update
        assert controls is not None, "the plan has control variates"
        scaled = controls * np.float32(self.control_scale)
        return np.concatenate([update, scaled]).astype(np.float32)

    def unpack(self, mean: Doubles, length: int) -> Doubles:
        """The mean update, and behind it that of the control variates where there are any

        mean: float64 [sent(d)] -> [d], or [2 d]
        """
        parts = mean.copy()
        if self.control_scale:
            parts[length:] /= self.control_scale
        return parts

    def _parts(self, length: int) -> int:
        return 2 * length if self.control_scale else length
