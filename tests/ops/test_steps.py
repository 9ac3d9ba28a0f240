"""The steps from what runs to what the configuration says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.ops.programs import Kind, kind_of
from storekeeper.ops.settings_reference import ROLES, settings_of
from storekeeper.ops.steps import Action, Code, Platform, Process, Step, restarted_by, steps

CHANGES = {
    "trigger_interval_ms": "restart of the apps",
    "replicas": "restart of the nodes",
    "stores": "restart of the nodes",
    "jars_dir": "restart of the apps and the broker",
    "control_port": "restart of the control API and Airflow",
    "kafka_properties": "restart of all processes",
    "history_days": "live",
    "topic_partitions": "live for new topics; others keep their number",
    "peers": "`storekeeper apply`",
    "kafka_port": "next start: `storekeeper down`, then `up`",
    "cluster": "impossible after a migration",
}
DEFAULTS: Mapping[str, Any] = dict.fromkeys(CHANGES, 1)


def platform(*names: str, settings: Mapping[str, Any] = DEFAULTS, **addresses: str) -> Platform:
    """A platform whose processes all run, with these settings; `addresses` are of nodes, by their names."""
    processes = {
        name: Process(kind_of(name), True, (name,), settings, addresses.get(name.removeprefix("node-")))
        for name in names
    }
    return Platform(processes, settings, {"pos": ("rewards",), "views": ("totals",)})


def said(found: Sequence[Step]) -> list[str]:
    return [f"{step.subject} {step.action}" for step in found]


ALL = ("kafka", "airflow-scheduler", "pos", "views", "node-a", "node-b", "control")


def test_what_runs_as_it_should_is_left_alone() -> None:
    assert steps(platform(*ALL), platform(*ALL), CHANGES) == ()


@pytest.mark.parametrize(
    ("setting", "restarted"),
    [
        ("trigger_interval_ms", ["pos", "views"]),
        ("replicas", ["node-a", "node-b"]),
        ("jars_dir", ["kafka", "pos", "views"]),
        ("control_port", ["airflow-scheduler", "control"]),
        ("kafka_properties", ["kafka", "node-a", "node-b", "pos", "views", "airflow-scheduler", "control"]),
        ("history_days", []),
        ("topic_partitions", []),
        ("peers", []),
    ],
)
def test_a_setting_restarts_what_reads_it_when_it_starts(setting: str, restarted: list[str]) -> None:
    found = steps(platform(*ALL), platform(*ALL, settings={**DEFAULTS, setting: 2}), CHANGES)
    assert [step.subject for step in found if step.action is Action.RESTART] == restarted
    assert all(step.why == (f"{setting}: 1 -> 2",) for step in found if step.action is Action.RESTART)
    taken = [step.subject for step in found if step.action is Action.TAKE_OVER]
    assert taken == ([setting] if CHANGES[setting].startswith("live") else [])


@pytest.mark.parametrize("setting", ["kafka_port", "cluster"])
def test_what_a_running_platform_can_not_take_over_is_said_with_the_reason(setting: str) -> None:
    found = steps(platform(*ALL), platform(*ALL, settings={**DEFAULTS, setting: 2}), CHANGES)
    assert found == (Step(Action.IMPOSSIBLE, setting, ("1 -> 2", CHANGES[setting])),)


def test_another_kafka_in_place_of_the_platforms_own_can_not_be_taken_over() -> None:
    (step,) = (step for step in steps(platform(*ALL), platform(*ALL[1:]), CHANGES) if step.action is not Action.REMOVE)
    assert (step.action, step.subject) == (Action.IMPOSSIBLE, "kafka_bootstrap")


def test_an_app_and_a_node_are_added_while_the_rest_runs_on() -> None:
    settings = {**DEFAULTS, "stores": 2}
    found = steps(platform("pos", "node-a"), platform("pos", "views", "node-a", "node-b", settings=settings), CHANGES)
    assert said(found) == ["node-b starts", "node-a restarts", "views starts"]


def test_a_removed_app_is_named_and_its_stores_stay_read_only() -> None:
    desired = replace(platform("views", "node-a"), stores={"views": ("totals",)})
    found = steps(platform("pos", "views", "node-a"), desired, CHANGES)
    assert said(found) == ["pos stops, and is removed", "rewards becomes read-only"]
    assert "storekeeper app retire" in found[1].why[0]


def test_a_second_process_that_never_ran_goes_without_a_word() -> None:
    actual = platform("pos", "pos-next")
    idle = {**actual.processes, "pos-next": replace(actual.processes["pos-next"], runs=False)}
    desired = replace(platform(), stores={})
    assert said(steps(replace(actual, processes=idle), desired, CHANGES)) == [
        "pos stops, and is removed",
        "rewards becomes read-only",
        "pos-next is removed",
    ]


def test_a_long_list_is_told_by_what_comes_and_goes() -> None:
    old, new = {**DEFAULTS, "stores": "a=x,b=y"}, {**DEFAULTS, "stores": "b=y,c=z"}
    (step,) = steps(platform("node-a", settings=old), platform("node-a", settings=new), CHANGES)
    assert step.why == ("stores: + c=z; - a=x",)


def test_an_app_that_moves_to_another_process_keeps_its_stores() -> None:
    desired = replace(platform("shared_driver"), stores={"shared_driver": ("rewards", "totals")})
    found = steps(platform("pos"), desired, CHANGES)
    assert said(found) == ["pos stops, and is removed", "shared_driver starts"], "its lease is free first"


def test_an_app_that_a_person_has_stopped_or_that_has_no_generation_stays_as_it_is() -> None:
    settings = {**DEFAULTS, "trigger_interval_ms": 2}
    desired = platform("pos", settings=settings)
    stopped = {"pos": replace(desired.processes["pos"], runs=False)}
    actual = platform("pos")
    ended = {"pos": replace(actual.processes["pos"], runs=False)}
    assert steps(replace(actual, processes=ended), replace(desired, processes=stopped), CHANGES) == ()
    assert said(steps(replace(actual, processes=ended), desired, CHANGES)) == ["pos starts"]


def test_changed_code_restarts_an_app_unless_it_would_break_it() -> None:
    code = Code(frozenset({"pos", "views"}), {"views": "it would break totals"}, {"rewards": "DAG `migrate_state`"})
    found = steps(platform(*ALL), platform(*ALL), CHANGES, code)
    assert said(found) == ["pos restarts", "views is left as it is", "rewards needs a new generation"]
    assert found[0].why == ("its code has changed",)
    assert str(found[1]) == "views is left as it is: it would break totals"


def test_a_blocked_app_that_is_as_it_should_be_or_is_removed_is_no_step_of_its_own() -> None:
    code = Code(blocked={"views": "it would break totals"})
    assert steps(platform(*ALL), platform(*ALL), CHANGES, code) == ()
    assert said(steps(platform("views"), platform(), CHANGES, code))[0] == "views stops, and is removed"


def test_a_process_that_nobody_knows_the_start_of_is_started_again() -> None:
    actual = platform("pos")
    unknown = {"pos": replace(actual.processes["pos"], settings=None, command=None)}
    (step,) = steps(replace(actual, processes=unknown), platform("pos"), CHANGES)
    assert (step.action, step.why) == (Action.RESTART, ("it is not known what it was started with",))


def test_another_command_or_address_restarts_a_process() -> None:
    actual = platform("pos", "node-a", a="h:1")
    other = {"pos": replace(actual.processes["pos"], command=("run", "pos", "--slowly"))}
    assert said(steps(replace(actual, processes=other), platform("pos"), CHANGES))[-1] == "pos restarts"
    (step,) = steps(platform("node-a", a="h:1"), platform("node-a", a="h:2"), CHANGES)
    assert step.why == ("its address: h:1 -> h:2",)


def test_nodes_take_addresses_when_these_are_free() -> None:
    gone = steps(
        platform("node-a", "node-b", a="h:1", b="h:2"), platform("node-b", "node-c", b="h:1", c="h:2"), CHANGES
    )
    assert said(gone) == ["node-a stops, and is removed", "node-b restarts", "node-c starts"]
    before = platform("node-a", "node-b", a="h:1", b="h:2")
    new = steps(before, platform("node-x", "node-a", "node-b", x="h:1", a="h:2", b="h:3"), CHANGES)
    assert said(new) == ["node-b restarts", "node-a restarts", "node-x starts"]
    swap = steps(before, platform("node-a", "node-b", a="h:2", b="h:1"), CHANGES)
    assert {step.action for step in swap} == {Action.IMPOSSIBLE}


def test_the_change_of_every_setting_is_one_that_a_plan_knows() -> None:
    known = ("live", "impossible", "next start", "restart of ", "`storekeeper apply`")
    for _, _, role in ROLES:
        for setting in settings_of(role):
            assert setting.change.startswith(known), setting.name
            if setting.change.startswith("restart of "):
                assert restarted_by(setting.change), setting.name


# A platform with some processes, each started with one of a few settings; and another one that is wanted.
_NAMES = ("kafka", "pos", "views", "node-a", "node-b", "node-c", "control")


@st.composite
def _platforms(draw: st.DrawFn, *, desired: bool) -> Platform:
    names = ["kafka", *draw(st.lists(st.sampled_from(_NAMES[1:]), unique=True))]
    live = {"trigger_interval_ms", "replicas", "control_port", "history_days", "kafka_properties"}
    values = st.fixed_dictionaries(dict.fromkeys(sorted(live), st.integers(1, 2)))
    settings = {**DEFAULTS, **draw(values)}
    processes: dict[str, Process] = {}
    for at, name in enumerate(names):
        kind = kind_of(name)
        started = settings if desired else {**DEFAULTS, **draw(values)}
        runs = (kind is not Kind.APP or draw(st.booleans())) if desired else draw(st.booleans())
        address = f"h:{at}" if kind is Kind.NODE else None
        processes[name] = Process(kind, runs, (name,), started, address)
    return Platform(processes, settings)


def done(actual: Platform, desired: Platform, step: Step) -> Platform:
    """The platform after a step."""
    processes, settings = dict(actual.processes), dict(actual.settings)
    if step.action is Action.TAKE_OVER:
        settings[step.subject] = desired.settings[step.subject]
    elif step.action in {Action.REMOVE, Action.FORGET}:
        del processes[step.subject]
    elif step.action in {Action.START, Action.RESTART}:
        processes[step.subject] = desired.processes[step.subject]
    return replace(actual, processes=processes, settings=settings)


@given(_platforms(desired=False), _platforms(desired=True), st.integers(0, 20))
def test_a_plan_that_is_cut_anywhere_is_finished_by_the_next(actual: Platform, desired: Platform, cut: int) -> None:
    todo = steps(actual, desired, CHANGES)
    if any(step.action is Action.IMPOSSIBLE for step in todo):
        return
    # What runs is never started again without a reason, and each step is one for a process that differs.
    for step in todo:
        there, wanted = actual.processes.get(step.subject), desired.processes.get(step.subject)
        assert (there, wanted) != (None, None) or step.action is Action.TAKE_OVER
        if step.action is Action.RESTART:
            assert there != wanted
    for step in todo[:cut]:
        actual = done(actual, desired, step)
    for step in steps(actual, desired, CHANGES):
        held = {one.address for name, one in actual.processes.items() if one.runs and name != step.subject} - {None}
        if step.action in {Action.START, Action.RESTART}:
            assert desired.processes[step.subject].address not in held, "no node takes another one's address"
        actual = done(actual, desired, step)
    assert steps(actual, desired, CHANGES) == ()
    for name, wanted in desired.processes.items():
        assert not wanted.runs or actual.processes[name].runs
    assert not [name for name in actual.processes if name not in desired.processes]
