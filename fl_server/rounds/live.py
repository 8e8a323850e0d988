"""One round in memory: the protocol's stages under the names by which they are kept."""

from __future__ import annotations

from collections.abc import Callable

from fl_server.errors import ProtocolError
from fl_server.plan.plan import Plan
from fl_server.secagg.certificate import Certificate, RevocationList
from fl_server.secagg.cohort import Cohort, ShardedStage, split
from fl_server.secagg.messages import Context
from fl_server.secagg.params import Encoding
from fl_server.secagg.server import Adverts, Agreements, Reveals
from fl_server.task_settings import TaskSettings

STAGES = ("advertise", "share", "vector", "agree", "reveal")
FINISHED, FAILED = "finished", "failed"

State = Adverts | ShardedStage


class LiveRound:
    """A round that is not over. Its state follows from its messages, whatever their order."""

    def __init__(
        self,
        task: TaskSettings,
        context: Context,
        encoding: Encoding,
        plan: Plan,
        model: bytes,
        weights: bytes,
        server_nonce: bytes,
        authority: bytes,
        opened_at: float,
    ) -> None:
        self.task = task
        self.context = context
        self.encoding = encoding
        self.plan = plan
        self.model = model
        self.weights = weights
        self.server_nonce = server_nonce
        self.opened_at = opened_at
        self.deadline = opened_at + task.stage_s("advertise")
        self.stage_started = opened_at
        self.seconds: dict[str, float] = {}
        # The number of the last kept message that is in the state.
        self.seen = 0
        self._stages: dict[str, State] = {"advertise": Adverts(context, encoding, authority)}
        self._replies: dict[str, Callable[[int], bytes]] = {}

    @property
    def number(self) -> int:
        return self.context.round

    @property
    def stage(self) -> str:
        """The stage whose messages are awaited."""
        return list(self._stages)[-1]

    @property
    def state(self) -> State:
        return self._stages[self.stage]

    @property
    def session(self) -> Cohort | None:
        """The session, or those of all shards, once the cohort is fixed."""
        return None if isinstance(self.state, Adverts) else self.state.cohort

    @property
    def cohort(self) -> Cohort:
        assert self.session is not None, "the cohort is not fixed yet"
        return self.session

    @property
    def survivors(self) -> list[frozenset[int]]:
        """Of each shard that is not lost, whose vectors are in its sum, once that is fixed."""
        state = self.state
        assert isinstance(state, ShardedStage), "nobody has sent a vector yet"
        parts = state.states.values()
        return [part.survivors for part in parts if isinstance(part, Agreements | Reveals)]

    def senders(self, stage: str) -> frozenset[int]:
        """Who has sent the message of a stage."""
        state = self._stages.get(stage)
        return frozenset() if state is None else state.senders

    def receive(
        self,
        stage: str,
        client: int,
        body: bytes,
        certificate: Certificate,
        now: float,
        digest: bytes = b"",
    ) -> bool:
        """Whether the message is new and must be kept.     raises ProtocolError, Malformed, Gone

        digest: of a vector, its SHA-256, where that is known
        """
        state = self._stages.get(stage)
        if state is None:
            raise ProtocolError(f"stage {stage} is not open yet; this is stage {self.stage}")
        if isinstance(state, Adverts):
            return state.receive(body, certificate, now)
        return state.receive(client, body, digest)

    def reply(self, stage: str, client: int) -> bytes | None:
        """What follows a stage, for one client; None until the stage is over.     raises Gone"""
        if self.session is not None:
            self.session.shard_of(client)
        reply = self._replies.get(stage)
        return None if reply is None else reply(client)

    def complete(self) -> bool:
        """Whether the stage can end without waiting for its deadline."""
        state = self.state
        if isinstance(state, Adverts):
            return len(state.senders) >= self.task.selected
        if self.stage == "vector" and self.task.over_selection:
            # As many as are wanted; the slow ones were selected so as not to be waited for.
            return state.has_enough(self.task.target_cohort)
        return state.complete

    def advance(self, revocations: RevocationList, now: float) -> None:
        """End the stage and begin the next.     raises ProtocolError if it cannot be ended"""
        state, ended = self.state, self.stage
        if isinstance(state, Adverts):
            following = split(state, self.server_nonce, revocations, self.task.layout)
        else:
            following = state.advance()
        self._stages[STAGES[STAGES.index(ended) + 1]] = following
        self._replies[ended] = following.reply
        self.end_stage(ended, now)

    def end_stage(self, ended: str, now: float) -> None:
        """Note how long a stage took, and when the next one must end."""
        self.seconds[ended] = round(now - self.stage_started, 3)
        self.stage_started = now
        self.deadline = now + self.task.stage_s(self.stage)

    def counts(self) -> dict[str, int]:
        """How many clients have sent the message of each stage."""
        return {stage: len(state.senders) for stage, state in self._stages.items()}
