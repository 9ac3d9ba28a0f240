"""Errors of schemas and their registry.

StateError
├── ConfigurationError
│   ├── UnregisteredSchemaError        the registry lacks a schema that an app writes with
│   └── IncompatibleSchemaError        a subject's level of compatibility refuses a schema
├── SerializationError
│   └── UnknownSchemaError             a value names a schema that the registry doesn't have
└── SchemaRegistryUnavailableError     the registry doesn't answer (retriable)
"""

from __future__ import annotations

from storekeeper.errors import ConfigurationError, RetriableError, SerializationError


class UnregisteredSchemaError(ConfigurationError):
    """A subject doesn't have the schema that an app writes with. The message says how to register it."""


class IncompatibleSchemaError(ConfigurationError):
    """A subject's level of compatibility refuses a schema. The message names the subject. Nothing was registered."""


class UnknownSchemaError(SerializationError):
    """A value names the id of a schema that the registry doesn't have."""


class SchemaRegistryUnavailableError(RetriableError):
    """The schema registry doesn't answer, or it can't now. Nothing was written; the same call may succeed later."""
