"""How long and how often a client tries."""

from __future__ import annotations

from dataclasses import dataclass

from state.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Times of one question.

    Attributes:
        timeout_s: the time limit of a question, over all attempts.
        attempt_s: how long to wait for one node in the first round; doubled with each further round.
        max_running: the most nodes that are asked at the same time.
        pause_s: the pause after the first round in which no node could answer. It doubles with each round, up to
            `max_pause_s`; the actual pause is random, from half of it to all of it.
        max_pause_s: the longest pause, even if a node asks for a longer one with `Retry-After`.
    """

    timeout_s: float = 10.0
    attempt_s: float = 2.0
    max_running: int = 3
    pause_s: float = 0.05
    max_pause_s: float = 1.0

    def __post_init__(self) -> None:
        if min(self.timeout_s, self.attempt_s, self.pause_s, self.max_pause_s) <= 0 or self.max_running < 1:
            raise InvalidArgumentError("the times and counts of a client are greater than 0")

    def attempt_in_round_s(self, rounds: int) -> float:
        """How long to wait for one node in a round; the first round is 0."""
        return self.attempt_s * 2 ** min(rounds, 8)

    def pause_after_s(self, rounds: int, draw: float) -> float:
        """The pause after a round; `draw` is from 0 to 1."""
        longest_s = min(self.max_pause_s, self.pause_s * 2 ** min(rounds, 16))
        return longest_s * (0.5 + 0.5 * draw)
