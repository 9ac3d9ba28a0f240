"""Who is to blame: guards around the functions of a topology, for a task that runs its batch again.

A task runs its batch without guards first, as they cost time. Only if that fails, another task with guards finds out
which operator failed on which record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from storekeeper.errors import RejectedRecordError, SerializationError, StorageError
from storekeeper.serdes.round_trip import round_trip
from storekeeper.serdes.serde import Serde
from storekeeper.serdes.struct import bare_serialize
from storekeeper.stores.record_context import RecordContext
from storekeeper.topology.careful_stores import CarefulRows, CarefulStore
from storekeeper.topology.failures import OnError, forget, is_of_record, note, reason_of
from storekeeper.topology.functions import Push
from storekeeper.topology.records import NOWHERE, Change, DeadLetter, Record, StoreChange
from storekeeper.topology.task_stores import TableRows, TypedStore
from storekeeper.topology.topology_store import TopologyStore
from storekeeper.topology.undo import Undo

T = TypeVar("T")
S = TypeVar("S", bound=CarefulRows | CarefulStore)
F = TypeVar("F", bound=Callable[..., Any])
Encode = Callable[[Any, Any], tuple[bytes | None, bytes | None]]
"""A row's key and value as bytes."""
Shape = Callable[[Any], Any]
"""Brings what a function returned into the form that its operator reads, or fails."""


@dataclass(slots=True)
class Failure:
    """An error and what is to blame for it.

    Attributes:
        error: the error.
        operator: the name of the operator whose function, or serde, raised it.
        on_error: what becomes of the record.
    """

    error: Exception
    operator: str
    on_error: OnError

    @property
    def condemns(self) -> bool:
        """Whether a record, or a released row, is to be left out."""
        return self.on_error is OnError.DEAD_LETTER and is_of_record(self.error)


class Guards:
    """No guards: functions are called as they are.

    Attributes:
        undo: notes how to take changes back; None where a batch that fails is given up.
        stores: what makes the stores of a task: rows of tables, and others; see `opened`.
    """

    undo: Undo | None = None
    stores: tuple[Callable[..., TableRows[Any]], Callable[..., TypedStore]] = (TableRows, TypedStore)

    def watch(self, context: RecordContext, saves: Sequence[Callable[[], None]]) -> None:
        """Tells which record is under way, and what saves to stores what waits beside them."""

    def renewed(self, operator: str, start: Callable[[], Push]) -> Push:
        """What a processor that `start` makes does with a record."""
        return start()

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

    def serialize(self, serde: Serde[T]) -> Callable[[T], bytes]:
        """What a serde of the user's writes by. It may raise any error where the serde says what is wrong."""
        return bare_serialize(serde)

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
    """Guards that remember the last failure, and take back what a record has changed that failed.

    Attributes:
        failure: the last one.
        letters: the dead letters of the batch, those of released rows among them.
    """

    def __init__(self, on_error: OnError, check_change: Callable[[StoreChange], None]) -> None:
        """`check_change` raises an error for a change that the store's changelog would refuse."""
        self._on_error = on_error
        self._check_change = check_change
        self.failure: Failure | None = None
        self.letters: list[DeadLetter] = []
        self.undo: Undo = Undo()
        self.undo.keep_length(self.letters)
        self.stores = (self._rows, self._typed)
        self._opened: list[CarefulRows | CarefulStore] = []
        self._saves: Sequence[Callable[[], None]] = ()
        self._renewals: dict[str, Callable[[], None]] = {}
        self._attempts = 0
        self._passed: BaseException | None = None
        self._in_timer = False
        self._context = RecordContext()

    def watch(self, context: RecordContext, saves: Sequence[Callable[[], None]]) -> None:
        """Dead letters of released rows get the headers of the records that those come from."""
        self._context, self._saves = context, saves
        self.undo.keep(context, *RecordContext.__slots__)

    def attempt(self, work: Callable[[], None]) -> Failure | None:
        """Does something, or nothing of it: all changes are taken back if a record, or a released row, is to blame.
        Returns what failed, or None.

        Raises:
            Exception: an error that neither is to blame for, or of an operator that is to fail the batch.
        """
        self.settle()
        mark = self.undo.mark()
        self._attempts += 1
        try:
            work()
            self.settle()
        except Exception as error:
            failure = self.of(error)
            if failure is None or not failure.condemns:
                raise
            self.undo.back_to(mark)
            for store in self._opened:
                store.forget()
            # A function may raise the same error again, for another record.
            self.failure = self._passed = None
            return failure
        finally:
            self._attempts -= 1
            if not self._attempts:
                self.undo.clear()
        return None

    def settle(self) -> None:
        """Checks what was written, so that the one is to blame that has written it."""
        for save in self._saves:
            save()
        for store in self._opened:
            store.settle()

    def renewed(self, operator: str, start: Callable[[], Push]) -> Push:
        """What the processor does; another one takes its place if a record is left out that it had taken."""
        current = start()

        def renew() -> None:
            nonlocal current
            current = start()

        def push(key: Any, value: Any, timestamp_ms: int) -> None:
            self.undo.renew(renew)
            current(key, value, timestamp_ms)

        self._renewals[operator] = renew
        return push

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

    def serialize(self, serde: Serde[T]) -> Callable[[T], bytes]:
        """The serde's own, whose error goes to the dead letters."""
        return serde.serialize

    def callback(self, operator: str, callback: F) -> F:
        """The callback; names the operator if it fails."""
        guarded = self.function(operator, callback, on_error=OnError.FAIL)

        def call(now_ms: int) -> None:
            self.settle()
            self.undo.renew(self._renewals[operator])
            self._in_timer = True
            try:
                guarded(now_ms)
                self.settle()
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
        """Leaves out the rows that fail."""

        def release(key: Any, value: Any, timestamp_ms: int) -> None:
            # A function that fails may have changed the row before.
            record = self._record_of(key, value, timestamp_ms, encode)
            self.settle()  # a timer is to blame for what it has written itself
            in_timer, self._in_timer = self._in_timer, False
            try:
                failure = self.attempt(partial(forward, key, value, timestamp_ms))
            finally:
                self._in_timer = in_timer
            if failure is not None:
                self.letters.append(letter_of(record, failure, f"; the row had waited in {operator}"))

        return release  # type: ignore[return-value]

    def _blame(self, error: Exception, operator: str, on_error: OnError) -> None:
        if self.of(error) is None and error is not self._passed:
            note(error, f"in operator {operator}")
            policy = OnError.DEAD_LETTER if isinstance(error, RejectedRecordError) else on_error
            self.failure = Failure(error, operator, OnError.FAIL if self._in_timer else policy)

    def _record_of(self, key: Any, value: Any, timestamp_ms: int, encode: Encode) -> Record:
        """A released row as its dead letter has it."""
        try:
            key_bytes, value_bytes = encode(key, value.new if isinstance(value, Change) else value)
        except Exception:  # that may be the very reason why it is left out
            key_bytes, value_bytes = None, None
        return Record("", NOWHERE, NOWHERE, timestamp_ms, key_bytes, value_bytes, tuple(self._context.headers))

    def _rows(self, spec: TopologyStore, *arguments: Any) -> CarefulRows:
        return self._known(CarefulRows(spec, *arguments, undo=self.undo, check=self._checking(spec)))

    def _typed(self, spec: TopologyStore, *arguments: Any) -> CarefulStore:
        return self._known(CarefulStore(spec, *arguments, undo=self.undo, check=self._checking(spec)))

    def _known(self, store: S) -> S:
        self._opened.append(store)
        return store

    def _checking(self, spec: TopologyStore) -> Callable[[StoreChange], None]:
        """The check of a store's changes. Nothing refuses those of a store without a changelog."""
        if not spec.options.logging:
            return lambda _: None
        return self.function(f"store {spec.name}", self._check_change)


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
            raise StorageError(f"operator {self._operator} can't read what it has stored: {error}") from error

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


def letter_of(record: Sequence[Any], failure: Failure, place: str = "") -> DeadLetter:
    """The dead letter of a record that an operator failed on; `place` follows the reason."""
    error = failure.error
    letter = DeadLetter(Record(*record), reason_of(error) + place, type(error).__name__, failure.operator)
    forget(error)
    return letter
