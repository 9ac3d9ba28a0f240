"""The outcome of one request to a node: an answer, or the reason for its failure."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from state.client.answers import Reply, no_answer_within
from state.client.exchange import Exchange
from state.errors import ConfigurationError, StateError


@dataclass(frozen=True, slots=True)
class Failure:
    """A request without an answer. `hopeless` is the error if no later request does better."""

    reason: str
    hopeless: StateError | None = None


Outcome = Reply | Failure


def settle(exchange: Exchange, attempt: int, outcome: Outcome, now_s: float) -> None:
    """Passes an attempt's outcome to its exchange."""
    if isinstance(outcome, Reply):
        exchange.on_reply(attempt, outcome, now_s)
    else:
        exchange.on_failure(attempt, outcome.reason, now_s, hopeless=outcome.hopeless)


def failure_of(error: Exception, timeout_s: float) -> Failure:
    """The failure for an error.

    Args:
        error: how the attempt ended. A certificate that can't be verified won't be verified later.
        timeout_s: the time limit of the attempt.
    """
    if isinstance(error, ConfigurationError):
        return Failure(str(error), error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            msg = f"the node's certificate can't be verified ({cause.verify_message}): name the authority's file"
            return Failure(msg, ConfigurationError(msg))
        if isinstance(cause, TimeoutError):
            return Failure(no_answer_within(timeout_s))
        if isinstance(cause, OSError) and cause.strerror:
            return Failure(f"does not answer ({cause.strerror})")
        cause = cause.__cause__ or cause.__context__
    return Failure(f"does not answer ({str(error) or 'the connection broke'})")
