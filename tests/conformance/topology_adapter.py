"""Runs topology cases: builds the topology with the DSL, pipes the events into the test driver, compares."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from storekeeper.apps.settings import AppSettings
from storekeeper.errors import BufferFullError, ConfigurationError, InvalidWindowError, NotCopartitionedError
from storekeeper.serdes.json import JsonSerde
from storekeeper.topology import (
    EmitStrategy,
    JoinWindows,
    KTable,
    Store,
    StreamsBuilder,
    TopologyTestDriver,
    until_limit,
    until_window_closes,
    with_key,
)
from storekeeper.topology.operators.suppress import BufferConfig, BufferFullStrategy
from storekeeper.topology.windows import SessionWindows, SlidingWindows, TimeWindows
from tests.conformance.adapter import MismatchError, UnsupportedCaseError
from tests.conformance.case import matches, plain
from tests.conformance.topology_functions import (
    ADDERS,
    FUNCTIONS,
    JOINERS,
    PREDICATES,
    OverlappingColumnsError,
)

PICKS = {
    "self_join": "supported",
    "sliding_emit": "all",
    "sliding_early": "keep",
    "global_left_null_mapped_key": "emit",
    "fk_spurious_tombstone": "emit",
    "repartition_null_key": "drop",
    "stateful_merge_partitions": "allow",
    "empty_right": "match",
    "join_retention": "strict",
}
ERRORS: dict[str, type[Exception]] = {
    "not_copartitioned": NotCopartitionedError,
    "grace_needs_versioned_table": ConfigurationError,
    "grace_exceeds_history": ConfigurationError,
    "interval_exceeds_grace": InvalidWindowError,
    "overlapping_columns": OverlappingColumnsError,
    "buffer_full": BufferFullError,
}
ANY = JsonSerde(verify=False)


def _ms(step: dict[str, Any], name: str) -> timedelta:
    return timedelta(milliseconds=step[name])


class DescribedCase:
    """The topology of a case.

    Attributes:
        made: what the DSL made of each source and step, by name.
    """

    def __init__(self, case: dict[str, Any], builder: StreamsBuilder) -> None:
        self.builder = builder
        self.made: dict[str, Any] = {}
        self.stored = set(case.get("expect_final_store", ()))
        described = case["topology"]
        for name, source in described["sources"].items():
            self.made[name] = self.source(source, name)
        for step in described["steps"]:
            of = step["of"] if isinstance(step["of"], list) else [step["of"]]
            method: Callable[..., Any] | None = getattr(self, f"op_{step['op']}", None)
            if method is None or step.get("eager") or step.get("closing"):
                msg = f"operation {step['op']} {step.get('closing') or ''}{'eager' if step.get('eager') else ''}"
                raise UnsupportedCaseError(msg)
            self.made[step["name"]] = method(step, *(self.made[name] for name in of))
        for name, step in described["outputs"].items():
            shown = self.made[step]
            (shown.to_stream() if isinstance(shown, KTable) else shown).to(output_of(case, name), named=f"out-{name}")

    def store(self, step: dict[str, Any]) -> Store[Any] | None:
        return Store(step["name"], ANY) if step["name"] in self.stored else None

    def values(self, step: dict[str, Any]) -> dict[str, Any]:
        return {"values": ANY, "store": self.store(step)}

    def source(self, source: dict[str, Any], name: str) -> Any:
        if source["kind"] == "stream":
            return self.builder.stream(source["topic"], ANY, keys=ANY)
        if source["kind"] == "global_table":
            store = Store(name, ANY) if name in self.stored else None
            return self.builder.global_table(source["topic"], ANY, keys=ANY, store=store)
        history = timedelta(milliseconds=source["versioned_ms"]) if "versioned_ms" in source else None
        store = Store(name, ANY, history=history) if history or name in self.stored else None
        return self.builder.table(source["topic"], ANY, keys=ANY, store=store)

    def op_filter(self, step: Any, of: Any) -> Any:
        store = {"store": self.store(step)} if isinstance(of, KTable) else {}
        return getattr(of, step["op"])(PREDICATES[step["predicate"]], **store)

    op_filter_not = op_filter

    def op_map(self, step: Any, of: Any) -> Any:
        return of.map(FUNCTIONS[step["fn"]], keys=ANY, values=ANY)

    def op_flat_map(self, step: Any, of: Any) -> Any:
        return of.flat_map(FUNCTIONS[step["fn"]], keys=ANY, values=ANY)

    def op_map_values(self, step: Any, of: Any) -> Any:
        options = self.values(step) if isinstance(of, KTable) else {"values": ANY}
        return of.map_values(with_key(FUNCTIONS[step["fn"]]), **options)

    def op_flat_map_values(self, step: Any, of: Any) -> Any:
        return of.flat_map_values(with_key(FUNCTIONS[step["fn"]]), values=ANY)

    def op_select_key(self, step: Any, of: Any) -> Any:
        return of.select_key(FUNCTIONS[step["fn"]], keys=ANY)

    def op_merge(self, _: Any, *of: Any) -> Any:
        return of[0].merge(*of[1:])

    def op_split(self, step: Any, of: Any) -> Any:
        split = of.split()
        for name, predicate in step["branches"]:
            self.made[f"{step['name']}.{name}"] = split.branch(PREDICATES[predicate])
        if step.get("default"):
            self.made[f"{step['name']}.{step['default']}"] = split.default()

    def op_to_stream(self, _: Any, of: Any) -> Any:
        return of.to_stream()

    def op_to_table(self, step: Any, of: Any) -> Any:
        return of.to_table(store=self.store(step))

    def op_repartition(self, step: Any, of: Any) -> Any:
        return of.repartition(partitions=step.get("partitions"), named=step["name"])

    def op_join(self, step: Any, left: Any, right: Any) -> Any:
        options: dict[str, Any] = self.values(step) if isinstance(left, KTable) else {"values": ANY}
        if "window" in step:
            window = step["window"]
            options["windows"] = JoinWindows(window["before_ms"], window["after_ms"], window["grace_ms"])
        if "grace_ms" in step:
            options["grace"] = _ms(step, "grace_ms")
        return getattr(left, step["op"])(right, with_key(JOINERS[step["joiner"]]), **options)

    op_left_join = op_outer_join = op_join

    def op_global_join(self, step: Any, left: Any, right: Any) -> Any:
        join = left.left_join if step["op"] == "global_left_join" else left.join
        return join(right, with_key(JOINERS[step["joiner"]]), on=FUNCTIONS[step["fn"]], values=ANY)

    op_global_left_join = op_global_join

    def op_fk_join(self, step: Any, left: Any, right: Any) -> Any:
        join = left.foreign_key_left_join if step["op"] == "fk_left_join" else left.foreign_key_join
        function = FUNCTIONS[step["fn"]]
        joiner = with_key(JOINERS[step["joiner"]])
        return join(right, lambda value: function(None, value), joiner, **self.values(step))

    op_fk_left_join = op_fk_join

    def op_asof_join(self, step: Any, left: Any, right: Any) -> Any:
        table = right.to_table(store=Store(None, ANY, history=_ms(step, "grace_ms")))
        join = left.left_join if step["how"] == "left" else left.join
        return join(table, with_key(JOINERS[step["joiner"]]), values=ANY)

    def op_interval_join(self, step: Any, left: Any, right: Any) -> Any:
        windows = JoinWindows(step["before_ms"], step["after_ms"], step["grace_ms"], interval=True)
        join = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}
        if step["how"] == "right":
            joiner = JOINERS[step["joiner"]]
            turned = JoinWindows(step["after_ms"], step["before_ms"], step["grace_ms"], interval=True)
            return right.left_join(left, with_key(lambda key, one, two: joiner(key, two, one)), turned, values=ANY)
        return join[step["how"]](right, with_key(JOINERS[step["joiner"]]), windows, values=ANY)

    def op_group_by_key(self, _: Any, of: Any) -> Any:
        return of.group_by_key()

    def op_group_by(self, step: Any, of: Any) -> Any:
        options = {"values": ANY} if isinstance(of, KTable) else {}
        return of.group_by(FUNCTIONS[step["fn"]], keys=ANY, **options)

    def op_count(self, step: Any, of: Any) -> Any:
        return of.count(store=self.store(step))

    def op_reduce(self, step: Any, of: Any) -> Any:
        functions = [ADDERS[step[name]] for name in ("adder", "subtractor") if name in step]
        return of.reduce(*functions, store=self.store(step))

    def op_aggregate(self, step: Any, of: Any) -> Any:
        functions = [ADDERS[step[name]] for name in ("adder", "subtractor", "merger") if name in step]
        return of.aggregate(lambda: step["init"], *functions, store=self.store(step) or Store(None, ANY))

    def op_cogroup(self, step: Any, *of: Any) -> Any:
        first, *rest = zip(of, (ADDERS[name] for name in step["aggregators"]), strict=True)
        cogrouped = first[0].cogroup(first[1])
        for stream, adder in rest:
            cogrouped = cogrouped.cogroup(stream, adder)
        return cogrouped

    def op_windowed(self, step: Any, of: Any) -> Any:
        if "gap_ms" in step:
            windows: Any = SessionWindows(step["gap_ms"], step["grace_ms"])
        elif "diff_ms" in step:
            windows = SlidingWindows(step["diff_ms"], step["grace_ms"])
        else:
            window = step["window"]
            size_ms = window["size_ms"]
            windows = TimeWindows(size_ms, window.get("advance_ms", size_ms), window.get("grace_ms", 0))
        return of.windowed_by(windows, emit=EmitStrategy(step.get("emit", "update")))

    op_session = op_sliding = op_windowed

    def op_suppress(self, step: Any, of: Any) -> Any:
        full = BufferFullStrategy(step.get("when_full", "emit_early"))
        buffer = BufferConfig(step.get("max_records"), None, full)
        if step["until"] == "window_close":
            return of.suppress(until_window_closes(of.windows, buffer))
        return of.suppress(until_limit(timedelta(milliseconds=step.get("time_limit_ms", 1 << 40)), buffer))


class TopologyCase:
    """One case under test.

    Args:
        case: the case.
        driver: runs its topology.
    """

    def __init__(self, case: dict[str, Any], driver: TopologyTestDriver) -> None:
        self.case = case
        self.driver = driver

    def run(self) -> None:
        """Pipes the events and compares what comes out.

        Raises:
            MismatchError: something else came out.
        """
        expected = {step["after"]: step for step in self.case.get("expect") or ()}
        error = self.case.get("expect_error", {})
        for number, event in enumerate(self.case["events"]):
            try:
                self.event(event)
            except Exception as raised:
                if error.get("at") == number and isinstance(raised, ERRORS[error["code"]]):
                    return
                raise
            for output, wanted in expected.get(number, {}).items():
                if output != "after":
                    self.compare_output(f"after {number}, {output}", self.drained(output), wanted)
        if error:
            msg = f"{error['code']} was not raised"
            raise MismatchError(msg)
        self.compare_ends()

    def event(self, event: list[Any]) -> None:
        if event[0] == "advance":
            self.driver.advance(event[1])
            return
        source, key, value, timestamp_ms, *place = event
        self.driver.pipe(self.topic_of(source), key, value, timestamp_ms, **(place[0] if place else {}))

    def topic_of(self, source: str) -> str:
        """The topic of a source."""
        return str(self.case["topology"]["sources"][source]["topic"])

    def output(self, name: str) -> str:
        """The topic of an output."""
        return output_of(self.case, name)

    def drained(self, output: str) -> list[Any]:
        return plain(self.driver.read(self.output(output)))

    def compare_output(self, where: str, found: list[Any], wanted: Any) -> None:
        """Compares what came out after an event.

        Where a change reaches a join on both sides, Kafka Streams gives its result twice, and forgets the tombstone of
        a row that the one side deletes before the other. Ours gives one result, and every tombstone.
        """
        if "join-of-join" in self.case.get("tags", ()):
            repeated = [row in wanted[:number] for number, row in enumerate(wanted)]
            wanted = [row for row, again in zip(wanted, repeated, strict=True) if not again]
            found = [row for row in found if row[1] is not None or row in wanted]
        self.compare(where, found, wanted)

    def compare(self, where: str, found: Any, wanted: Any) -> None:
        if not matches(found, wanted):
            msg = f"{where}: expected {wanted}, got {found}"
            raise MismatchError(msg[:900])

    def compare_ends(self) -> None:
        for output in self.case["topology"]["outputs"]:
            self.compare(f"at the end, {output}", self.drained(output), [])
        self.compare_rows()
        if "expect_dropped" in self.case:
            self.compare("dropped", self.driver.dropped.total, self.case["expect_dropped"])

    def compare_rows(self) -> None:
        """Compares what stores hold at the end.

        Raises:
            MismatchError: something else is there.
        """
        for step, rows in self.case.get("expect_final_store", {}).items():
            found = [[plain(key), value] for key, value in self.driver.rows(step)]
            self.compare(f"rows of {step}", found, {"any_order": rows})


@dataclass(frozen=True)
class CaseTopology:
    """Describes the topology of a case to an app. Travels to the workers.

    Attributes:
        text: the case as JSON.
    """

    text: str

    def __call__(self, streams: StreamsBuilder, _: AppSettings) -> None:
        """Describes it."""
        DescribedCase(json.loads(self.text), streams)


def output_of(case: dict[str, Any], name: str) -> str:
    """The topic of an output."""
    return f"{case['id']}-out-{name}"


def refuse_other_choices(case: dict[str, Any]) -> None:
    """Refuses a case of another choice than ours.

    Raises:
        UnsupportedCaseError: it is one.
    """
    choice = case.get("choice")
    if choice is not None and PICKS.get(choice["name"]) != choice["pick"]:
        msg = f"choice {choice['name']}: ours is {PICKS.get(choice['name'])}"
        raise UnsupportedCaseError(msg)


def run_topology_case(case: dict[str, Any]) -> None:
    """Runs one case.

    Raises:
        MismatchError: it came out differently.
        UnsupportedCaseError: it asks for what the DSL does not offer, or for another choice than ours.
    """
    refuse_other_choices(case)
    error = case.get("expect_error", {})
    try:
        described = DescribedCase(case, StreamsBuilder("app"))
        counts = {source["topic"]: source["partitions"] for source in case["topology"]["sources"].values()}
        driver = TopologyTestDriver(described.builder.build(), counts, on_error="fail")
    except Exception as raised:
        if error.get("at") == "build" and isinstance(raised, ERRORS[error["code"]]):
            return
        raise
    if error.get("at") == "build":
        msg = f"{error['code']} was not raised"
        raise MismatchError(msg)
    TopologyCase(case, driver).run()
    for step, count in case.get("expect_partitions", {}).items():
        _compare_partitions(step, driver, described.made[step].node, count)


def _compare_partitions(step: str, driver: TopologyTestDriver, node: Any, expected: int) -> None:
    sinks = [child for child, _ in node.children if hasattr(child, "partitions")]
    found = driver.plan.partitions[(sinks[0] if sinks else node.sink).topic]
    if found != expected:
        msg = f"partitions of {step}: expected {expected}, got {found}"
        raise MismatchError(msg)
