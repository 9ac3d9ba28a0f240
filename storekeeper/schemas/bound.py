"""Ties a format to a subject: what a topic holds is in Confluent's wire format (see `framing`)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from storekeeper.schemas.errors import UnregisteredSchemaError
from storekeeper.schemas.registry import SchemaRegistry
from storekeeper.serdes.value_field import ValueField

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema

T = TypeVar("T")


@runtime_checkable
class SchemaSerde(Protocol[T]):
    """A serde by a schema. By itself it writes values for the app's own use, without a registry."""

    def serialize(self, value: T) -> bytes: ...  # noqa: D102 (see `Serde`)
    def deserialize(self, data: bytes) -> T: ...  # noqa: D102 (see `Serde`)

    def schema(self) -> Schema:
        """The schema as a registry takes it."""
        ...

    def fields(self) -> tuple[ValueField, ...]:
        """The fields that become columns of snapshots."""
        ...

    def numbers(self) -> frozenset[str]:
        """The fields that are numbers in a value's JSON: nodes can rank rows by these."""
        ...

    def head(self, schema_id: int) -> bytes:
        """What is in front of each value of a topic."""
        ...

    def body(self, value: T) -> bytes:
        """What follows there."""
        ...

    def value(self, data: bytes, registry: SchemaRegistry) -> T:
        """A topic's value, head and body.

        Raises:
            SerializationError: the bytes are none of the schema that they name, or no value of this serde's type.
            SchemaRegistryUnavailableError: the writer's schema can't be asked for now.
        """
        ...


class BoundSerde(Generic[T]):
    """A format's values as a topic holds them.

    Args:
        inner: the format.
        subject: the subject that its schema is registered under.
        registry: where that is.

    The calls raise, besides `SerializationError`, the errors of `SchemaRegistry`.
    """

    def __init__(self, inner: SchemaSerde[T], subject: str, registry: SchemaRegistry) -> None:
        self.inner = inner
        self.subject = subject
        self._registry = registry

    def serialize(self, value: T) -> bytes:
        """The value in Confluent's wire format."""
        return self._head + self.inner.body(value)

    def deserialize(self, data: bytes) -> T:
        """The value that any schema of the registry wrote."""
        return self.inner.value(data, self._registry)

    @property
    def registers(self) -> bool:
        """Whether `prepare` registers the schema."""
        return self._registry.registers

    def is_registered(self) -> bool:
        """Whether the subject has the schema."""
        try:
            self._registry.id_of(self.subject, self.inner.schema())
        except UnregisteredSchemaError:
            return False
        return True

    def prepare(self) -> None:
        """Makes sure that the subject has the schema; registers it where apps do so.

        Raises:
            UnregisteredSchemaError, IncompatibleSchemaError: the subject doesn't have it.
        """
        if self.registers:
            self._registry.register(self.subject, self.inner.schema())
        _ = self._head

    def refusal(self) -> str | None:
        """Why the subject would refuse the schema; None if it would take it."""
        return self._registry.refusal(self.subject, self.inner.schema())

    @cached_property
    def _head(self) -> bytes:
        return self.inner.head(self._registry.id_of(self.subject, self.inner.schema()))


def value_subject(topic: str) -> str:
    """The subject of a topic's values, by Confluent's strategy of topic names."""
    return f"{topic}-value"


def bound_to(serde: Any, topic: str, registry: SchemaRegistry) -> Any:
    """The serde for values of a topic: one by a schema is tied to its subject, any other is left as it is."""
    inner = serde.inner if isinstance(serde, BoundSerde) else serde
    return BoundSerde(inner, value_subject(topic), registry) if isinstance(inner, SchemaSerde) else serde
