from __future__ import annotations

from decimal import Decimal

import pytest

from storekeeper.errors import ConfigurationError, SerializationError
from storekeeper.schemas.json_schema import JsonSchemaSerde
from tests.schemas.samples import JSON, Purchase


def test_a_value_must_be_valid_when_it_is_written_and_when_it_is_read() -> None:
    serde = JsonSchemaSerde(JSON, Purchase)
    exact = Purchase("7", Decimal("12345678901234567890.1234"))
    assert serde.deserialize(serde.serialize(exact)) == exact
    with pytest.raises(SerializationError, match=r"at \$.amount: rule `minimum`"):
        serde.serialize(Purchase("4836051607", Decimal(-1)))
    for wrong in (b'{"card":"4836051607","amount":-1}', b'{"card":"4836051607"}', b"{", b"\xff"):
        with pytest.raises(SerializationError) as error:
            serde.deserialize(wrong)
        assert "4836051607" not in str(error.value)


def test_without_a_type_values_are_as_json_has_them() -> None:
    serde = JsonSchemaSerde(JSON)
    assert serde.deserialize(serde.serialize({"card": "7", "amount": 1})) == {"card": "7", "amount": 1}


def test_nothing_is_fetched_from_an_address_in_a_schema() -> None:
    serde = JsonSchemaSerde({"$ref": "http://127.0.0.1:1/schema.json"})
    with pytest.raises(SerializationError, match="can't be used"):
        serde.deserialize(b"{}")


def test_what_is_no_schema_is_refused() -> None:
    for wrong in ("{", {"type": "nonsense"}):
        with pytest.raises(ConfigurationError, match="not a JSON Schema"):
            JsonSchemaSerde(wrong)


def test_an_error_names_a_field_only_if_the_schema_does() -> None:
    by_card = {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}}
    serde = JsonSchemaSerde({"type": "object", "properties": {"cards": by_card}})
    with pytest.raises(SerializationError, match=r"at \$\.cards\[\.\.\.\]\[1\]: rule `type`"):
        serde.serialize({"cards": {"4836051607": [1, "a"]}})
