"""Protobuf values, of a class that `protoc` has made, and their fields as columns.

A topic's values are in Confluent's wire format: see `bound`. Values for the app's own use are the message
alone.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.message import DecodeError, Message

from storekeeper.errors import ConfigurationError, SerializationError
from storekeeper.schemas.column_fields import JSON_TEXT
from storekeeper.schemas.framing import framed
from storekeeper.schemas.registry import SchemaRegistry
from storekeeper.serdes.reasons import reason_of
from storekeeper.serdes.value_field import ValueField

_SQL_TYPES = {
    FieldDescriptor.CPPTYPE_BOOL: "boolean",
    FieldDescriptor.CPPTYPE_INT32: "bigint",
    FieldDescriptor.CPPTYPE_UINT32: "bigint",
    FieldDescriptor.CPPTYPE_INT64: "bigint",
    FieldDescriptor.CPPTYPE_UINT64: "decimal(20,0)",
    FieldDescriptor.CPPTYPE_FLOAT: "double",
    FieldDescriptor.CPPTYPE_DOUBLE: "double",
    FieldDescriptor.CPPTYPE_STRING: "string",
}
_LONG = frozenset({FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64})
_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)
_JSON_NUMBERS = ("bigint", "double")


def protobuf_fields(message: Descriptor) -> tuple[ValueField, ...]:
    """The fields of a message. All are nullable: a row that is older than a field lacks it."""
    return tuple(ValueField(field.name, _sql_type(field), nullable=True) for field in message.fields)


def protobuf_numbers(message: Descriptor) -> frozenset[str]:
    """The fields that are numbers in a message's JSON, where 64-bit integers are text."""
    return frozenset(
        field.name
        for field in message.fields
        if field.message_type is None and _sql_type(field) in _JSON_NUMBERS and field.cpp_type not in _LONG
    )


def with_integers(plain: dict[str, Any], message: Descriptor) -> dict[str, Any]:
    """A message in JSON's types, whose 64-bit integers are numbers and not text."""
    return plain | {name: int(plain[name]) for name in _long_fields(message) if plain.get(name) is not None}


def _long_fields(message: Descriptor) -> Iterator[str]:
    return (field.name for field in message.fields if not field.is_repeated and _content(field).cpp_type in _LONG)


def _sql_type(field: FieldDescriptor) -> str:
    if field.is_repeated:  # a map too
        return JSON_TEXT
    if field.message_type is not None and field.message_type.full_name == _TIMESTAMP:
        return "timestamp"
    return _SQL_TYPES.get(_content(field).cpp_type, JSON_TEXT)


def _content(field: FieldDescriptor) -> FieldDescriptor:
    """The field, or that of the value which it wraps."""
    wraps = field.message_type is not None and field.message_type.full_name in _WRAPPERS
    return field.message_type.fields_by_name["value"] if wraps else field


if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema

T = TypeVar("T")


class ProtobufSerde(Generic[T]):
    """Values of one Protobuf message. Fields that other versions of it have are left alone, as Protobuf does.

    Args:
        message: the generated class.
        type_: the type of the values, such as a `msgspec.Struct` with the message's field names. None: values are
            messages.
        proto: the text of the file that the class was made from, for a registry that can't compare descriptors. None:
            the registry gets the file's descriptor.

    Raises:
        ConfigurationError: the class is not a message, or its file imports another one that is not Google's own.
    """

    @overload
    def __init__(
        self: ProtobufSerde[Any], message: type[Message], type_: None = None, *, proto: str | None = None
    ) -> None: ...

    @overload
    def __init__(self, message: type[Message], type_: type[T], *, proto: str | None = None) -> None: ...

    def __init__(self, message: type[Message], type_: type[T] | None = None, *, proto: str | None = None) -> None:
        if not (isinstance(message, type) and issubclass(message, Message)):
            raise ConfigurationError("a Protobuf serde needs a message class that protoc has made")
        self._message = message
        self._descriptor: Descriptor = message.DESCRIPTOR
        self._file: FileDescriptor = self._descriptor.file
        foreign = [file.name for file in self._file.dependencies if not _is_googles(file.name)]
        if foreign:
            msg = f"{self._file.name} imports {', '.join(foreign)}: put the message and what it uses into one file"
            raise ConfigurationError(msg)
        self._proto = proto
        self._indexes = indexes_of(self._descriptor)
        self.type = type_

    def schema(self) -> Schema:
        """The schema as a registry takes it: the file's text, or its descriptor."""
        from confluent_kafka.schema_registry import Schema  # noqa: PLC0415 (specs are imported without it)

        return Schema(self._proto or base64.b64encode(self._file.serialized_pb).decode(), "PROTOBUF")

    def fields(self) -> tuple[ValueField, ...]:
        """The message's fields as columns."""
        return protobuf_fields(self._descriptor)

    def numbers(self) -> frozenset[str]:
        """The message's fields that are numbers in JSON, where 64-bit integers are text."""
        return protobuf_numbers(self._descriptor)

    def head(self, schema_id: int) -> bytes:
        """What is in front of each value of a topic."""
        return head_of(schema_id, self._indexes)

    def body(self, value: T) -> bytes:
        """As `serialize`."""
        return self.serialize(value)

    def value(self, data: bytes, registry: SchemaRegistry) -> T:
        """A topic's value.

        Raises:
            SerializationError: another message of the writer's schema was written, or the bytes don't decode.
        """
        schema_id, indexes, message = split(data)
        self._check_message(indexes, schema_id, registry)
        return self.deserialize(message)

    def serialize(self, value: T) -> bytes:
        """The message's bytes.

        Raises:
            SerializationError: the value is no such message, or doesn't fit it.
        """
        try:
            message = value if self.type is None else self._message_of(value)
            if not isinstance(message, self._message):
                raise SerializationError(f"expected a {self._message.__name__}, not a {type(value).__name__}")
            # Equal values have equal bytes, whatever the order of a map.
            return message.SerializeToString(deterministic=True)
        except SerializationError:
            raise
        except Exception as error:  # the library raises many, and a type may have code of its own
            msg = f"a {type(value).__name__} doesn't fit message {self._descriptor.full_name} ({type(error).__name__})"
            raise SerializationError(msg) from None

    def deserialize(self, data: bytes) -> T:
        """The value.

        Raises:
            SerializationError: the bytes are no such message, or it isn't of this serde's type.
        """
        try:
            message = self._message.FromString(data)
        except DecodeError as error:
            raise SerializationError(f"{len(data)} bytes are not a message {self._descriptor.full_name}") from error
        return cast("T", message) if self.type is None else self._typed(message, self.type)

    def _message_of(self, value: T) -> Message:
        return json_format.ParseDict(msgspec.to_builtins(value), self._message())

    def _typed(self, message: Message, type_: type[T]) -> T:
        try:
            plain = json_format.MessageToDict(
                message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
            )
            return msgspec.convert(plain, type_, strict=False)  # Protobuf's JSON has int64 as text
        except Exception as error:  # the library raises many, and a type may have code of its own
            kind = getattr(type_, "__name__", type_)
            msg = f"a message {self._descriptor.full_name} is not a {kind}: {reason_of(error)}"
            raise SerializationError(msg) from error  # which says whether the value is to blame

    def _check_message(self, indexes: Sequence[int], schema_id: int, registry: SchemaRegistry) -> None:
        """Refuses a value that is another message. A schema that came as text doesn't say: the place decides then."""
        writer = registry.parsed(schema_id, file_of)
        if writer is None:
            same = indexes == self._indexes
        else:
            same = message_at(writer, indexes).full_name == self._descriptor.full_name
        if not same:
            msg = f"a value of schema {schema_id} is another message than {self._descriptor.full_name}"
            raise SerializationError(msg)


def indexes_of(message: Descriptor) -> tuple[int, ...]:
    """The place of a message in its file: its number at each level, the outermost first."""
    outer: Descriptor | None = message.containing_type
    if outer is None:
        return (_names(message.file).index(message.name),)
    return (*indexes_of(outer), [nested.name for nested in outer.nested_types].index(message.name))


def head_of(schema_id: int, indexes: Sequence[int]) -> bytes:
    """What is in front of a message in the wire format: 0, the schema's id, the message's place in its file."""
    return bytes(_library().SchemaId("PROTOBUF", schema_id, message_indexes=list(indexes)).id_to_bytes())


def split(data: bytes) -> tuple[int, tuple[int, ...], bytes]:
    """The schema's id, the message's place in its file, and its bytes.

    Raises:
        SerializationError: the bytes don't begin as the wire format does.
    """
    schema_id, _ = framed(data)
    read_id, buffer = _library().SchemaId("PROTOBUF"), io.BytesIO(data)
    try:
        read_id.from_bytes(buffer)
    except Exception as error:  # the library raises several
        raise SerializationError("a Protobuf value doesn't say which message it is") from error
    return schema_id, tuple(read_id.message_indexes), data[buffer.tell() :]


def file_of(schema: Schema, registry: SchemaRegistry) -> FileDescriptor | None:
    """A schema of the registry as a file; None if the registry gives only its text.

    Raises:
        SerializationError: it is not a Protobuf schema.
    """
    if schema.schema_type != "PROTOBUF":
        raise SerializationError(f"the value's schema is of type {schema.schema_type}, not PROTOBUF")
    proto = _descriptor_in(schema.schema_str or "")
    if proto is None:
        return None
    pool = descriptor_pool.DescriptorPool()
    try:
        for name in proto.dependency:
            if _is_googles(name):
                _add_googles(pool, name)
        for name, other in registry.references(schema):
            descriptor = _descriptor_in(other.schema_str or "")
            if descriptor is None:
                return None
            descriptor.name = name
            pool.Add(descriptor)
        proto.name = proto.name or "value.proto"
        pool.Add(proto)
        return pool.FindFileByName(proto.name)
    except (TypeError, KeyError, ImportError) as error:
        raise SerializationError("the value's schema is not a whole Protobuf file") from error


def message_at(file: FileDescriptor, indexes: Sequence[int]) -> Descriptor:
    """The message at a place of a file.

    Raises:
        SerializationError: there is none.
    """
    first, *rest = indexes
    try:
        message = file.message_types_by_name[_names(file)[first]]
        for index in rest:
            message = message.nested_types[index]
    except IndexError as error:
        raise SerializationError("a value names a message that its schema doesn't have") from error
    return message


def _names(file: FileDescriptor) -> list[str]:
    """The names of a file's outermost messages, in the order of the file."""
    content = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(content)
    return [message.name for message in content.message_type]


def _descriptor_in(text: str) -> descriptor_pb2.FileDescriptorProto | None:
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None


def _is_googles(name: str) -> bool:
    return name.startswith("google/protobuf/")


def _add_googles(pool: descriptor_pool.DescriptorPool, name: str) -> None:
    module: Any = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    for file in module.DESCRIPTOR.dependencies:
        _add_googles(pool, file.name)
    pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)


def _library() -> Any:
    return importlib.import_module("confluent_kafka.schema_registry.serde")
