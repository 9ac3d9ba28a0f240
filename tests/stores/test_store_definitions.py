"""Store definitions as settings name them."""

from __future__ import annotations

import pytest

from storekeeper.stores.store_definitions import ServedKind, StoreDefinition, parse_definitions

_TEXT = "rewards=pos-rewards-changelog,players=players-changelog:ranked:HighScore,sales=sales-changelog:window"
_BY_SCHEMA = (
    "totals=totals-changelog:keyvalue:schemas,visits=visits-changelog:session:schemas,"
    "players=players-changelog:ranked:Score:schemas"
)


def test_definitions_are_read_in_order() -> None:
    found = parse_definitions(_TEXT)
    assert list(found) == ["rewards", "players", "sales"]
    assert found["rewards"] == StoreDefinition("rewards", "pos-rewards-changelog")
    assert found["players"] == StoreDefinition("players", "players-changelog", ServedKind.RANKED, "HighScore")
    assert found["sales"].kind is ServedKind.WINDOW


@pytest.mark.parametrize("text", [_TEXT, _BY_SCHEMA])
def test_a_definition_is_written_as_it_is_read(text: str) -> None:
    assert ",".join(map(str, parse_definitions(text).values())) == text


def test_values_by_schemas_are_said_behind_the_rest() -> None:
    found = parse_definitions(_BY_SCHEMA)
    assert (found["totals"].kind, found["totals"].by_schema) == (ServedKind.KEY_VALUE, True)
    assert (found["visits"].kind, found["visits"].score_field) == (ServedKind.SESSION, None)
    assert (found["players"].score_field, found["players"].by_schema) == ("Score", True)
    ranked = parse_definitions("players=players-changelog:ranked:schemas")["players"]
    assert (ranked.score_field, ranked.by_schema) == ("schemas", False)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rewards", "form"),
        ("rewards=", "form"),
        ("rewards=t:ranked:a:b", "form"),
        ("rewards=t:window:schemas:schemas", "form"),
        ("rewards=t:tree", "choose one of"),
        ("rewards=t:ranked", "score field"),
        ("rewards=t:window:x", "score field"),
        ("rewards=t,rewards=u", "twice"),
        ("rewards=t,points=t:window", "same topic"),
        ("../rewards=t", "name"),
    ],
)
def test_what_is_no_definition_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_definitions(text)
