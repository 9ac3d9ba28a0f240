"""Store definitions as settings name them."""

from __future__ import annotations

import pytest

from state.store_definitions import ServedKind, StoreDefinition, parse_definitions

_TEXT = "rewards=pos-rewards-changelog,players=players-changelog:ranked:HighScore,sales=sales-changelog:window"


def test_definitions_are_read_in_order() -> None:
    found = parse_definitions(_TEXT)
    assert list(found) == ["rewards", "players", "sales"]
    assert found["rewards"] == StoreDefinition("rewards", "pos-rewards-changelog")
    assert found["players"] == StoreDefinition("players", "players-changelog", ServedKind.RANKED, "HighScore")
    assert found["sales"].kind is ServedKind.WINDOW


def test_a_definition_is_written_as_it_is_read() -> None:
    assert ",".join(map(str, parse_definitions(_TEXT).values())) == _TEXT


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rewards", "form"),
        ("rewards=", "form"),
        ("rewards=t:ranked:a:b", "form"),
        ("rewards=t:tree", "choose one of"),
        ("rewards=t:ranked", "score field"),
        ("rewards=t:window:x", "score field"),
        ("rewards=t,rewards=u", "twice"),
        ("../rewards=t", "name"),
    ],
)
def test_what_is_no_definition_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_definitions(text)
