"""Who is to blame: guards around the functions of a topology, for a task that runs its batch again.

A task runs its batch without guards first, as they cost time. Only if that fails, another task with guards finds out
which operator failed on which record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from state.errors import RejectedRecordError, SerializationError, StorageError
from state.serdes.round_trip import round_trip
from state.serdes.serde import Serde
from state.stores.record_context import RecordContext
from state.topology.change import Change
from state.topology.failures import OnError, forget, is_of_record, note, reason_of
from state.topology.records import DeadLetter, Record

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Encode = Callable[[Any, Any], tuple[bytes | None, bytes | None]]
"""A row's key and value as bytes."""
Shape = Callable[[Any], Any]
"""Brings what a function returned into the form that its operator reads, or fails."""

NOWHERE = -1
"""Partition and offset of a row that has no place in a topic."""


@dataclass(slots=True)
class Failure:
    """An error and what is to blame for it.

    Attributes:
        error: the error.
        operator: the name of the operator whose function, or serde, raised it.
        on_error: what becomes of the record.
        release: the number of the released row that the operator had, or that led to it; None for the record itself.
    """

    error: Exception
    operator: str
    on_error: OnError
    release: int | None = None

    @property
    def condemns(self) -> bool:
        """Whether a record, or a released row, is to be left out."""
        return self.on_error is OnError.DEAD_LETTER and is_of_record(self.error)


class Guards:
    """No guards: functions are called as they are."""

    def watch(self, context: RecordContext) -> None:
        """Tells which record is under way."""

    def function(self, operator: str, function: F, shape: Shape | None = None, on_error: OnError | None = None) -> F:
        """A function of the user as an operator calls it.

        Args:
            operator: the operator's name.
            function: the function.
            shape: what its result must be.
            on_error: what becomes of a record that it fails on; None for the app's policy.
        """
        return function

    def serde(self, operator: str, serde: Serde[T], place: str | None = None) -> Serde[T]:
        """A serde of rows or messages that the topology makes itself, and where they go."""
        return serde

    def callback(self, operator: str, callback: F) -> F:
        """A function that is called by a timer. No record is to blame if it fails."""
        return callback

    def passing(self, operator: str, forward: F, encode: Encode) -> F:
        """What a function of the user may call to pass records on. The function isn't to blame for what fails there.

        What it passes on while a timer calls it is a released row; see `releasing`.
        """
        return forward

    def releasing(self, operator: str, forward: F, encode: Encode) -> F:
        """What takes rows that waited, while another record is under way: that one isn't to blame for them.

        Args:
            operator: the name of the operator where they waited.
            forward: takes a row's key, its value or change, and its time.
            encode: a row's key and value as bytes.
        """
        return forward


UNGUARDED = Guards()


class CarefulGuards(Guards):
    """Guards that remember the last failure.

    Attributes:
        failure: the last one.
        discards: the released rows to leave out by their number, each with what failed on it before.
        letters: the dead letters of released rows that were left out.
    """

    def __init__(self, on_error: OnError, discards: Mapping[int, Failure]) -> None:
        self._on_error = on_error
        self.failure: Failure | None = None
        self.discards = discards
        self.letters: list[DeadLetter] = []
        self._released = 0
        self._passed: BaseException | None = None
        self._in_timer = False
        self._context = RecordContext()

    def watch(self, context: RecordContext) -> None:
        """Dead letters of released rows get the headers of the records that those come from."""
        self._context = context

    def begin(self) -> None:
        """Begins a batch: its released rows are numbered from 0."""
        self.discards, self.letters, self._released = {}, [], 0

    def of(self, error: BaseException) -> Failure | None:
        """Who is to blame for an error; None if no function of the user and no serde is."""
        return self.failure if self.failure is not None and self.failure.error is error else None

    def function(self, operator: str, function: F, shape: Shape | None = None, on_error: OnError | None = None) -> F:
        """The function; blames its operator if it fails."""
        policy = on_error or self._on_error

        def call(*arguments: Any) -> Any:
            try:
                result = function(*arguments)
                return result if shape is None else shape(result)
            except Exception as error:
                self._blame(error, operator, policy)
                raise

        return call  # type: ignore[return-value]

    def serde(self, operator: str, serde: Serde[T], place: str | None = None) -> Serde[T]:
        """The serde; blames the operator for what can't be written, and nobody for what can't be read."""
        return _GuardedSerde(self, operator, serde, place)

    def callback(self, operator: str, callback: F) -> F:
        """The callback; names the operator if it fails."""
        guarded = self.function(operator, callback, on_error=OnError.FAIL)

        def call(now_ms: int) -> None:
            self._in_timer = True
            try:
                guarded(now_ms)
            finally:
                self._in_timer = False

        return call  # type: ignore[return-value]

    def passing(self, operator: str, forward: F, encode: Encode) -> F:
        """Passes records on; remembers an error of somebody else."""
        release = self.releasing(operator, forward, encode)

        def call(*record: Any) -> None:
            try:
                (release if self._in_timer else forward)(*record)
            except Exception as error:
                self._passed = error
                raise

        return call  # type: ignore[return-value]

    def releasing(self, operator: str, forward: F, encode: Encode) -> F:
        """Numbers the rows, and leaves out those that failed before."""

        def release(key: Any, value: Any, timestamp_ms: int) -> None:
            number, self._released = self._released, self._released + 1
            discarded = self.discards.get(number)
            if discarded is not None:
                self.letters.append(self._letter_of_row(discarded, operator, (key, value, timestamp_ms), encode))
                return
            in_timer, self._in_timer = self._in_timer, False
            try:
                forward(key, value, timestamp_ms)
            except Exception as error:
                failure = self.of(error)
                if failure is not None and failure.release is None:
                    failure.release = number
                raise
            finally:
                self._in_timer = in_timer

        return release  # type: ignore[return-value]

    def _blame(self, error: Exception, operator: str, on_error: OnError) -> None:
        if self.of(error) is None and error is not self._passed:
            note(error, f"in operator {operator}")
            policy = OnError.DEAD_LETTER if isinstance(error, RejectedRecordError) else on_error
            self.failure = Failure(error, operator, OnError.FAIL if self._in_timer else policy)

    def _letter_of_row(self, failure: Failure, waited_in: str, row: tuple[Any, Any, int], encode: Encode) -> DeadLetter:
        key, value, timestamp_ms = row
        value = value.new if isinstance(value, Change) else value
        try:
            key_bytes, value_bytes = encode(key, value)
        except Exception:  # that may be the very reason why it is left out
            key_bytes, value_bytes = None, None
        record = Record("", NOWHERE, NOWHERE, timestamp_ms, key_bytes, value_bytes, tuple(self._context.headers))
        reason = f"{reason_of(failure.error)}; the row had waited in {waited_in}"
        return DeadLetter(record, reason, type(failure.error).__name__, failure.operator)


class _GuardedSerde(Generic[T]):
    """A serde that distinguishes its refusals: of a value that is to be written, or of a row that was stored."""

    def __init__(self, guards: CarefulGuards, operator: str, serde: Serde[T], place: str | None) -> None:
        self._serde = serde
        self._operator = operator
        known = round_trip(serde)

        def guarded(function: F) -> F:
            return guards.function(operator, function if place is None else _naming(place, function))

        self.is_plain = known.is_plain
        self.serialize = guarded(serde.serialize)
        self.as_read = guarded(known.as_read)
        self.write = guarded(known.write)

    def deserialize(self, data: bytes) -> T:
        """The value.

        Raises:
            StorageError: the bytes, which the operator had stored, can't be read.
        """
        try:
            return self._serde.deserialize(data)
        except SerializationError as error:
            msg = f"operator {self._operator} can't read what it has stored: {error}"
            raise StorageError(msg) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._serde, name)


def _naming(place: str, function: F) -> F:
    """A function of a serde whose errors say where the value was to go."""

    def call(value: Any) -> Any:
        try:
            return function(value)
        except SerializationError as error:
            error.args = (f"{place}: {error}",)
            raise

    return call  # type: ignore[return-value]


def letter_of(record: Sequence[Any], failure: Failure) -> DeadLetter:
    """The dead letter of a record that an operator failed on."""
    error = failure.error
    letter = DeadLetter(Record(*record), reason_of(error), type(error).__name__, failure.operator)
    forget(error)
    return letter
