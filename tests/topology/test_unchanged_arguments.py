"""The test driver finds functions that change their arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from storekeeper.errors import ConfigurationError
from storekeeper.topology import ProcessorContext, Store, StreamsBuilder, TopologyTestDriver


def adding(total: dict[str, int], value: dict[str, int]) -> dict[str, int]:
    total["n"] = total.get("n", 0) + value["n"]
    return total


def growing(value: dict[str, int]) -> dict[str, int]:
    value["n"] += 1
    return value


def pairing(left: dict[str, int], right: dict[str, int] | None) -> dict[str, int]:
    left.update(right or {})
    return left


def seen(_: str, value: dict[str, int]) -> bool:
    return value.pop("n") > 0


def aggregated(streams: StreamsBuilder) -> None:
    streams.stream("in", dict).group_by_key().aggregate(dict, adding, store=Store("totals", dict))


def mapped(streams: StreamsBuilder) -> None:
    streams.stream("in", dict).map_values(growing, values=dict).to("out")


def filtered(streams: StreamsBuilder) -> None:
    streams.stream("in", dict).filter(seen).to("out")


def joined(streams: StreamsBuilder) -> None:
    streams.stream("in", dict).left_join(streams.table("in2", dict), pairing, values=dict).to("out")


@pytest.mark.parametrize(
    ("describe", "says"),
    [
        (aggregated, r"operator in\.aggregate changed its argument, a dict"),
        (mapped, r"operator in\.map-values changed its argument, a dict"),
        (filtered, r"operator in\.filter changed its argument, a dict"),
        (joined, r"operator in\.left-join changed its argument, a dict"),
    ],
)
def test_a_function_that_changes_its_argument_fails(describe: Callable[[StreamsBuilder], None], says: str) -> None:
    streams = StreamsBuilder("app")
    describe(streams)
    driver = TopologyTestDriver(streams.build())
    if describe is joined:
        driver.pipe("in2", "k", {"m": 1})
    with pytest.raises(ConfigurationError, match=says):
        driver.pipe("in", "k", {"n": 1})


def test_values_that_can_not_be_encoded_are_compared_too() -> None:
    streams = StreamsBuilder("app")
    streams.stream("in", dict).map_values(lambda value: {**value, "big": 1 << 70}, values=dict).map_values(
        growing, values=dict
    ).to("out")
    with pytest.raises(ConfigurationError, match=r"operator in\.map-values.map-values changed"):
        TopologyTestDriver(streams.build()).pipe("in", "k", {"n": 1})


class Reusing:
    """Forwards the same dict for each record."""

    def init(self, context: ProcessorContext[str, dict[str, int]]) -> None:
        self._context = context
        self._row = {"n": 0}

    def process(self, key: str, value: dict[str, int], _: int) -> None:
        self._row["n"] += value["n"]
        self._context.forward(key, self._row)


def yielding(value: dict[str, int]) -> Iterator[dict[str, int]]:
    for number in range(value["n"]):
        value = value if number else dict(value)
        value["n"] = number
        yield value


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("kind", ["process", "flat-map-values"])
def test_a_value_that_changes_after_it_was_passed_on_fails(kind: str, at_once: bool) -> None:
    streams = StreamsBuilder("app")
    stream = streams.stream("in", dict)
    made = stream.process(Reusing, values=dict) if kind == "process" else stream.flat_map_values(yielding, values=dict)
    made.to_table(store=Store("rows", dict))
    driver = TopologyTestDriver(streams.build())
    driver.append("in", "a", {"n": 1})
    if not at_once:
        driver.run()
    driver.append("in", "b", {"n": 2})
    with pytest.raises(ConfigurationError, match=rf"operator in\.{kind} changed what it had passed on, a dict"):
        driver.run()


async def is_known(value: int) -> bool:
    return value > 1


def test_a_function_that_returns_a_coroutine_fails() -> None:
    streams = StreamsBuilder("app")
    streams.stream("in", int).filter(lambda _, value: is_known(value)).to("out")  # type: ignore[arg-type,return-value]
    driver = TopologyTestDriver(streams.build())
    with pytest.raises(ConfigurationError, match=r"of operator in\.filter returned a coroutine, and nobody awaits it"):
        driver.pipe("in", "a", 1)
