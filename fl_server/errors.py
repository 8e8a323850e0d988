"""Every error of the package, as one tree; each names the rule that was broken."""

from __future__ import annotations

from collections.abc import Iterable


class FlError(Exception):
    """The root. `status` is what an HTTP client sees; `who` are the clients that evidence names."""

    status = 400

    def __init__(self, message: str, who: Iterable[int] = ()) -> None:
        super().__init__(message)
        self.who = tuple(sorted(who))


class Malformed(FlError):
    """Bytes that are not the message they claim to be."""


class ProtocolError(FlError):
    """One side of the aggregation protocol broke a rule that the other can see."""

    status = 409


# What either side refuses in a message.


class BadSignature(ProtocolError):
    """A signature does not verify."""


class BadCertificate(ProtocolError):
    """A certificate is not the authority's, out of its time, revoked, or of another tenant."""


class SealBroken(ProtocolError):
    """A box does not open. One error for every reason: nothing is learnt from which it was."""


class StageReplayed(ProtocolError):
    """A stage that was answered came again with other bytes."""


# What a client refuses (its own policy; the server cannot tune it).


class CohortTooSmall(ProtocolError):
    """Fewer clients than the floor below which a sum hides nobody."""


class ThresholdTooLow(ProtocolError):
    """With this threshold, two views of the survivors could unmask one client."""


class KeysNotDistinct(ProtocolError):
    """Two adverts carry one key."""


class BadKey(ProtocolError):
    """An advertised key is no canonical point that gives a shared secret."""


class SwappedKey(ProtocolError):
    """The client's own advert came back changed, or not at all."""


class ModelMismatch(ProtocolError):
    """The session is about another model than the one that was trained on."""


class StaleRound(ProtocolError):
    """The round number is not above the last one joined for the task."""


class EncodingMismatch(ProtocolError):
    """The parameters would wrap the ring, or are not those of the client's own encoder."""


class SpentUpdate(ProtocolError):
    """The update has left the device once; it does not leave twice."""


class TooFewShares(ProtocolError):
    """Not enough neighbours hold, or revealed, valid shares."""


class NotASurvivor(ProtocolError):
    """The survivor list leaves this client out, so it reveals nothing."""


class TooFewSurvivors(ProtocolError):
    """The survivor list is shorter than the threshold allows."""


class GivenUp(ProtocolError):
    """The client has given the round up, or is through with it: its secrets are erased."""


class SplitView(ProtocolError):
    """Too few neighbours signed the survivor list that this client was shown."""


# What the encoder refuses.


class EncodingError(FlError):
    """An update that cannot be encoded: not finite, of a wrong length, of too large a weight."""


class ModulusTooSmall(FlError):
    """The ring cannot hold the largest possible sum."""


# What ends a round on the server.


class RoundFailed(ProtocolError):
    """The round cannot finish; `who` are those whom evidence names."""


class ChecksumMismatch(RoundFailed):
    """The sum of the checksums is not the checksum of the sum."""


# What the service answers.


class NotFound(FlError):
    """There is no such thing here."""

    status = 404


class Unauthorised(FlError):
    """The request does not carry a valid token or request signature."""

    status = 401


class CertificateNeeded(Unauthorised):
    """The client is enrolled, and has no certificate of the authority's key of now."""


class Forbidden(FlError):
    """The token is valid, but not for this."""

    status = 403


class TooMany(FlError):
    """The caller asks more often than it may; `retry_s` is when it may again."""

    status = 429

    def __init__(self, message: str, retry_s: float) -> None:
        super().__init__(message)
        self.retry_s = retry_s


class TooLarge(FlError):
    """The body is longer than this route accepts."""

    status = 413


class TooSlow(FlError):
    """The body did not come in time."""

    status = 408


class HookFailed(FlError):
    """The command that decides about devices did not run, or not in time; they may come again."""

    status = 503


class Gone(FlError):
    """The stage, or the round, is over."""

    status = 410


class RoundFinished(Gone):
    """The round has its result; nothing more is needed of anybody."""


class WrongOffset(ProtocolError):
    """A part of an upload does not go where the parts before it end."""


class LedgerDamaged(FlError):
    """The account of what a task has spent is not what was written."""

    status = 500


class SettingsError(FlError):
    """Settings that contradict themselves or each other."""


class ServerUnreachable(FlError):
    """The server did not answer within the device's patience."""


class ServerRefused(FlError):
    """The server answered a device with an error; `status` holds its code."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def kind(self) -> str:
        """The name of the error on the server's side."""
        return str(self).partition(":")[0]

    @property
    def reason(self) -> str:
        """What the server said, without the error's name."""
        kind, _, text = str(self).partition(": ")
        return text if kind.isidentifier() and text else str(self)


class TrainingFailed(FlError):
    """Local training raised; the cause is chained."""


class MissingRuntime(FlError):
    """The lite runtime is needed here and is not installed."""


class MissingExtra(FlError):
    """An optional dependency is needed here and is not installed."""
