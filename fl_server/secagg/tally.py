"""What the server adds up: masked vectors, or, in a session without masks, each as it is."""

from __future__ import annotations

import numpy as np

from fl_server.errors import ChecksumMismatch, RoundFailed
from fl_server.secagg.encode import Mean, check_alone
from fl_server.secagg.pack import Words, word_type
from fl_server.secagg.params import Params
from fl_server.secagg.session import Session


class Tally:
    """words: the sum     [d + extras]

    Memory is one vector, whatever the cohort; without masks it is one for each client.
    """

    def __init__(self, params: Params) -> None:
        self.words: Words = np.zeros(params.encoding.total_length, word_type(params.ring_bits))
        self._alone: dict[int, Words] | None = None if params.is_masked else {}

    def add(self, client: int, words: Words) -> None:
        np.add(self.words, words, out=self.words)
        if self._alone is not None:
            self._alone[client] = words

    def honest(self, session: Session) -> tuple[dict[int, Mean], tuple[int, ...]]:
        """Without masks: the updates that an encoder could have made, and who sent another."""
        means, caught = {}, []
        for client, words in sorted((self._alone or {}).items()):
            try:
                means[client] = check_alone(words, session.params, session.id)
            except (ChecksumMismatch, RoundFailed):
                caught.append(client)
        return means, tuple(caught)
