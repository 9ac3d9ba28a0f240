"""What is written reads back equal, or is refused."""

from __future__ import annotations

import datetime as dt
import enum
from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from storekeeper.errors import ConfigurationError, SerializationError
from storekeeper.serdes.json import JsonSerde
from storekeeper.serdes.round_trip import round_trip
from storekeeper.serdes.serde import BytesSerde, Utf8Serde
from storekeeper.serdes.struct import StructSerde, key_serde, serde_of
from storekeeper.topology.operators.foreign_key import fingerprint, in_order


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: int
    y: float


class Movie(TypedDict):
    name: str
    year: int


class Row(msgspec.Struct):
    name: str = ""
    total: float = 0
    tags: set[str] = msgspec.field(default_factory=set)
    more: Any = None


class Longer(Row):
    extra: int = 0


class Extended(msgspec.Struct, dict=True):
    n: int = 0


@dataclass
class Reading:
    at: dt.datetime
    parts: list[Reading]


class Normal(msgspec.Struct):
    name: str

    def __post_init__(self) -> None:
        self.name = self.name.lower()


Rated = Annotated[int, msgspec.Meta(ge=0, le=5)]
Coded = Annotated[str, msgspec.Meta(pattern="^[A-Z]+$", max_length=3)]


@pytest.mark.parametrize(
    ("type_", "value", "why"),
    [
        (str, None, "expected text"),
        (int, True, "read back"),
        (int, 1.0, "read back"),
        (float, True, "read back"),
        (float, 2**53 + 1, "changed"),
        (bool, 1, "read back"),
        (list[int], "text", "read back"),
        (list[int], [1, "2"], "read back"),
        (list[int], (1, 2), "a tuple would come back as a list"),
        (tuple[int, int], (1, 2, 3), "read back"),
        (dict, {9: 4}, "an int would come back as a str"),
        (dict[str, int], {"a": None}, "read back"),
        (dict, {"at": dt.date(2026, 1, 1)}, "a date would come back as a str"),
        (dict, {"price": Decimal("1.5")}, "a Decimal would come back as a float"),
        (dict, {"c": Colour.RED}, "a Colour would come back as a str"),
        (dict, {"l": Level.LOW}, "a Level would come back as an int"),
        (dict, {"id": UUID(int=1)}, "an UUID would come back as a str"),
        (dict, {"pair": (1, 2)}, "a tuple would come back as a list"),
        (dict, {"set": {1}}, "a set would come back as a list"),
        (dict, defaultdict(int), "a defaultdict would come back as a dict"),
        (dict[str, int], defaultdict(int, a=1), "a defaultdict would come back as a dict"),
        (dict[str, int], Counter("aab"), "a Counter would come back as a dict"),
        (Decimal, 1.5, "a float would come back as a Decimal"),
        (float, Decimal("1.5"), "a Decimal would come back as a float"),
        (Decimal, Decimal("NaN"), "read back"),
        (Row, Row(name=None), "read back"),  # type: ignore[arg-type]
        (Row, Row(more={1: 2}), "would come back as a str"),
        (Row, 3, "read back"),
        (Row, Longer("a", 1.0, set(), None, 5), "a Longer would come back as a Row"),
        (Movie, {"name": "x", "year": 1, "odd": 2}, "changed"),
        (Movie, {"name": "x"}, "read back"),
        (Normal, msgspec.structs.replace(Normal("a")), None),
        (Rated, 6, "read back"),
        (Rated, 5, None),
        (Coded, "abc", "read back"),
        (Coded, "ABC", None),
        (Literal["a", "b"], "c", "read back"),
        (Literal[1], True, "read back"),
        (Literal["a", "b"], ["a"], "read back"),
        (int | Decimal, Decimal(1), "a Decimal would come back as an int"),
        (str, "\ud800", "surrogates"),
        (list[str], ["\ud800"], "surrogates"),
        (dict, {"\ud800": 1}, "surrogates"),
        (Any, 10**5000, "read back"),
    ],
    ids=lambda value: ascii(value)[:40] if type(value) is not int else "int",
)  # fmt: skip
def test_a_value_that_reads_otherwise_is_refused(type_: Any, value: Any, why: str | None) -> None:
    serde = serde_of(type_)
    if why is None:
        assert serde.deserialize(serde.serialize(value)) == value
        return
    assert not round_trip(serde).is_plain(value)
    with pytest.raises(SerializationError, match=why):
        serde.serialize(value)
    with pytest.raises(SerializationError, match=why):
        round_trip(serde).as_read(value)
    assert not round_trip(serde).is_plain(value)


def test_a_changed_struct_with_code_of_its_own_is_refused() -> None:
    row = Normal("a")
    row.name = "A"
    with pytest.raises(SerializationError, match=r"\$\.name would come back changed"):
        StructSerde(Normal).serialize(row)


class Celsius(float):
    """A subclass, as NumPy's float64 is."""


class Count(int):
    """A whole number with a name of its own."""


class Name(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("type_", "value", "read"),
    [
        (float, 11, 11.0),
        (float | None, 11, 11.0),
        (Decimal, 5, Decimal(5)),
        (Row, Row("r", 11), Row("r", 11.0)),
        (frozenset[int], {3, 1}, frozenset({1, 3})),
        (dict[str, int], OrderedDict(a=2), {"a": 2}),
        (str | None, Colour.RED, "red"),
        (tuple[int, float], Point(1, 2.0), (1, 2.0)),
        (Decimal, Decimal("-0"), Decimal(0)),
        (float, Celsius(1.5), 1.5),
        (list[int], [Count(3)], [3]),
        (dict[str, float], {Name("a"): Celsius(1)}, {"a": 1.0}),
    ],
    ids=lambda value: ascii(value)[:40] if type(value) is not int else "int",
)
def test_a_type_takes_an_equal_value_in_another_form_and_shows_it_in_its_own(type_: Any, value: Any, read: Any) -> None:
    found, data = StructSerde(type_).as_read(value)
    assert (found, type(found)) == (read, type(read))
    assert StructSerde(type_).deserialize(data) == read
    assert repr(found) == repr(read)


def test_what_a_struct_has_beside_its_fields_is_gone_at_once() -> None:
    row = Extended(1)
    row.cached = 5  # type: ignore[attr-defined]
    assert not hasattr(StructSerde(Extended).as_read(row)[0], "cached")


def test_a_time_reads_with_its_offset() -> None:
    at = dt.datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))
    found, _ = StructSerde(dt.datetime).as_read(at)
    assert found == at
    assert found.utcoffset() == dt.timedelta(hours=2)


def test_equal_sets_have_the_same_fingerprint() -> None:
    texts = [f"{n}" for n in range(100)]
    one, other = Row(tags=set(texts)), Row(tags={*texts[50:], *texts[:50]})
    assert fingerprint(one, StructSerde(Row)) == fingerprint(other, StructSerde(Row))
    assert fingerprint(one, StructSerde(Row)) != fingerprint(Row(tags=set(texts[1:])), StructSerde(Row))


_TOO_DEEP = 20_000
"""Python 3.13 reads documents of several thousand levels, 3.11 of a thousand."""


@pytest.mark.parametrize("serde", [JsonSerde(), serde_of(dict), serde_of(list), serde_of(Row)])
def test_a_document_that_is_nested_too_deeply_is_refused(serde: Any) -> None:
    for data in (
        b"[" * _TOO_DEEP + b"]" * _TOO_DEEP,
        b'{"more":' + b"[" * _TOO_DEEP + b"]" * _TOO_DEEP + b"}",
        b'{"a":' * _TOO_DEEP,
    ):
        with pytest.raises(SerializationError):
            serde.deserialize(data)
    deep: list[Any] = []
    for _ in range(_TOO_DEEP):
        deep = [deep]
    for value in (deep, {"more": deep}, Row(more=deep)):
        with pytest.raises(SerializationError):
            serde.serialize(value)


NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def test_whole_numbers_have_any_size() -> None:
    wei = {"wei": 123456789012345678901}
    for serde in (JsonSerde(), serde_of(dict), serde_of(Any), serde_of(dict[str, int])):
        assert serde.deserialize(serde.serialize(wei)) == wei  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("type_", "one", "other", "data"),
    [
        (Decimal, Decimal("1.0"), Decimal("1.00"), b"1"),
        (Decimal, Decimal("-0.0"), Decimal(0), b"0"),
        (Decimal, Decimal("1E+2"), Decimal(100), b"100"),
        (Decimal, Decimal("1E+400"), Decimal(10) ** 400, b"1E+400"),
        (float, -0.0, 0.0, b"0.0"),
        (float, 1, 1.0, b"1.0"),
        (tuple[str, Decimal], ("a", Decimal("1.50")), ("a", Decimal("1.5")), b'["a",1.5]'),
        (dict[str, float], {"a": 1.0, "b": -0.0}, {"b": 0.0, "a": 1.0}, b'{"a":1.0,"b":0.0}'),
        (frozenset[str], frozenset("abcdef"), frozenset("fedcba"), b'["a","b","c","d","e","f"]'),
        (dt.datetime, NOON.astimezone(dt.timezone(dt.timedelta(hours=2))), NOON, b'"2026-01-01T12:00:00Z"'),
    ],
    ids=lambda value: ascii(value)[:40] if type(value) is not int else "int",
)
def test_equal_keys_have_the_same_bytes(type_: Any, one: Any, other: Any, data: bytes) -> None:
    serde: Any = key_serde(serde_of(type_))
    assert serde.serialize(one) == serde.serialize(other) == data
    assert key_serde(serde) is serde
    assert serde.deserialize(data) == one


@pytest.mark.parametrize("type_", [frozenset[frozenset[str]], list[set[tuple[frozenset[int], int]]]])
def test_sets_of_sets_are_no_keys_as_they_have_no_order(type_: Any) -> None:
    with pytest.raises(ConfigurationError, match="sets within a set have no order"):
        key_serde(serde_of(type_))


def test_a_key_that_is_written_otherwise_is_read_in_the_one_form() -> None:
    assert str(key_serde(serde_of(Decimal)).deserialize(b"1.00")) == "1"
    with pytest.raises(SerializationError):
        key_serde(serde_of(Decimal)).serialize(Decimal("NaN"))


def test_keys_with_one_form_cost_nothing_more() -> None:
    for type_ in (str, bytes, int, tuple[str, int]):
        assert type(key_serde(serde_of(type_))) in {Utf8Serde, BytesSerde, StructSerde}


@dataclass(frozen=True)
class Measured:
    unit: ClassVar[str] = "m"
    length: int


def test_a_data_class_is_checked_by_its_fields() -> None:
    assert StructSerde(Measured).is_plain(Measured(1))
    assert not StructSerde(Measured).is_plain(Measured(1.0))  # type: ignore[arg-type]


@pytest.mark.parametrize("keys", [Decimal, bool, tuple[int, str], tuple, frozenset[int], Measured, int | bool, None])
def test_a_dict_whose_keys_json_has_no_form_for_is_refused_where_it_is_described(keys: Any) -> None:
    with pytest.raises(ConfigurationError, match="keys of a dict can't be of kind"):
        serde_of(list[dict[keys, int]])


def test_a_value_of_a_class_that_json_has_no_form_for_is_named() -> None:
    with pytest.raises(SerializationError, match="JSON has no form for a Fraction: convert it"):
        serde_of(dict).serialize({"share": Fraction(1, 2)})


def test_names_of_fields_are_never_code() -> None:
    odd: Any = msgspec.defstruct("Odd", [("class", int), ("value", int)])
    make: Any = TypedDict
    quoted = make("Quoted", {"a'] or exit() #": int})
    for type_, value in ((odd, odd(1, 2)), (quoted, {"a'] or exit() #": 1})):
        serde: Any = StructSerde(type_)
        assert serde.deserialize(serde.serialize(value)) == value
    assert not StructSerde(quoted).is_plain({})


class Lossy:
    """A serde of a user's own."""

    def serialize(self, value: Any) -> bytes:
        return f"{value:.2f}".encode()

    def deserialize(self, data: bytes) -> Any:
        return float(data)


def test_a_serde_of_somebody_else_is_compared() -> None:
    serde = round_trip(Lossy())
    assert serde.as_read(1.5) == (1.5, b"1.50")
    with pytest.raises(SerializationError, match="changed"):
        serde.serialize(1.234)
    with pytest.raises(SerializationError, match=r"Lossy \(ValueError"):
        serde.deserialize(b"x")


SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(), float: st.floats(), str: st.text(), bool: st.booleans(), bytes: st.binary(),
    Decimal: st.decimals(), dt.date: st.dates(), UUID: st.uuids(), Colour: st.sampled_from(Colour),
    dt.datetime: st.datetimes(timezones=st.none() | st.timezones()), dt.timedelta: st.timedeltas(),
    dt.time: st.times(), Level: st.sampled_from(Level), type(None): st.none(),
}  # fmt: skip
SOME = st.one_of(*SCALARS.values())
ANYTHING = st.recursive(
    SOME,
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple)
    | st.dictionaries(st.text(max_size=3) | st.integers() | st.floats() | st.none(), inner, max_size=3)
    | st.frozensets(st.integers() | st.text(max_size=2), max_size=3),
    max_leaves=6,
)  # fmt: skip
OBJECTS: dict[Any, st.SearchStrategy[Any]] = {
    Any: ANYTHING,
    dict: st.dictionaries(st.text(max_size=3), ANYTHING, max_size=3),
    list: st.lists(ANYTHING, max_size=3),
    Row: st.builds(Row, st.text(max_size=2), st.floats() | st.integers(), st.sets(st.text(max_size=2)), ANYTHING),
    Point: st.builds(Point, st.integers(), st.floats()),
    Movie: st.fixed_dictionaries({"name": st.text(max_size=2), "year": st.integers()}),
    Reading: st.builds(Reading, SCALARS[dt.datetime], st.just([])),
}
Typed = tuple[Any, st.SearchStrategy[Any]]


def of(kind: Any, *parts: Any) -> Any:
    """A type with its parameters."""
    return kind[parts]


def _nested(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    shapes: list[Any] = [
        lambda one, _: (of(list, one[0]), st.lists(one[1], max_size=3)),
        lambda one, _: (of(dict, str, one[0]), st.dictionaries(st.text(max_size=2), one[1], max_size=3)),
        lambda one, _: (of(dict, int, one[0]), st.dictionaries(st.integers(), one[1], max_size=3)),
        lambda one, _: (of(tuple, one[0], ...), st.lists(one[1], max_size=3).map(tuple)),
        lambda one, other: (of(tuple, one[0], other[0]), st.tuples(one[1], other[1])),
        lambda one, other: (one[0] | other[0], one[1] | other[1]),
        lambda one, _: (one[0] | None, one[1] | st.none()),
    ]
    return st.tuples(st.sampled_from(shapes), inner, inner).map(lambda drawn: drawn[0](drawn[1], drawn[2]))


TYPES = st.recursive(st.sampled_from(list((SCALARS | OBJECTS).items())), _nested, max_leaves=4)


@st.composite
def typed_values(draw: st.DrawFn) -> tuple[Any, Any]:
    """A type, and mostly a value of it."""
    type_, values = draw(TYPES)
    return type_, draw(ANYTHING if draw(st.integers(0, 3)) == 0 else values)


def shown(value: Any) -> str:
    return repr(in_order(value))


@given(typed_values())
def test_any_value_of_any_type_reads_equal_or_is_refused(typed: tuple[Any, Any]) -> None:
    type_, value = typed
    try:
        serde: Any = serde_of(type_)
    except ConfigurationError:
        assume(False)
    known = round_trip(serde)
    try:
        data = serde.serialize(value)
    except SerializationError:
        assert not known.is_plain(value)
        return
    found, written = known.as_read(value)
    assert written == data
    back = serde.deserialize(data)
    assert shown(back) == shown(found)
    assert shown(known.as_read(found)[0]) == shown(found)
    if known.is_plain(value):
        assert shown(back) == shown(value)
    assert back == value


@pytest.mark.long("test_any_value_of_any_type_reads_equal_or_is_refused, with fewer cases")
def test_many_values_of_many_types() -> None:
    settings(max_examples=5000)(test_any_value_of_any_type_reads_equal_or_is_refused)()


class Times(msgspec.Struct):
    at: dt.datetime
    seen: set[dt.datetime] = msgspec.field(default_factory=set)
    notes: dict[dt.datetime, str] = msgspec.field(default_factory=dict)


@pytest.mark.parametrize("fold", [0, 1])
def test_times_of_the_hour_that_comes_twice_read_as_they_were_written(fold: int) -> None:
    # Python calls this time unequal to the same one in any other zone.
    at = dt.datetime(2026, 11, 1, 1, 30, tzinfo=ZoneInfo("America/New_York"), fold=fold)
    instant = dt.datetime(2026, 11, 1, 5 + fold, 30, tzinfo=dt.UTC)
    times = StructSerde(Times).as_read(Times(at, {at}, {at: "x"}))[0]
    assert times == Times(instant, {instant}, {instant: "x"})
    assert StructSerde(Reading).as_read(Reading(at, []))[0] == Reading(instant, [])
    assert key_serde(StructSerde(dt.datetime)).serialize(at) == key_serde(StructSerde(dt.datetime)).serialize(instant)
    other = at.replace(fold=1 - fold)
    assert StructSerde(Times).serialize(Times(at)) != StructSerde(Times).serialize(Times(other))
