"""What a plan makes of each kind of change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from storekeeper.errors import InvalidArgumentError
from storekeeper.generations.changes.contract import (
    BY_SCHEMA,
    AppTopology,
    DeclaredStore,
    Description,
    RunningStore,
    Step,
)
from storekeeper.generations.changes.plan import Change, Plan, Verdict, plan_changes

FIELDS = {"Card": "string", "Points": "decimal(18,4)"}
TIERED = {"Card": "string", "Cents": "bigint", "Tier": "string"}
TIER = Step("tier", "Adds the tier.", 2, TIERED)
REGION = Step("region", "Keys begin with the region.", 3, TIERED, changes_key=True)
DECLARED = DeclaredStore("rewards", "pos", "rewards-log", "keyvalue", None, FIELDS)
RUNNING = RunningStore(
    "rewards",
    "pos",
    "rewards-log",
    "keyvalue",
    fields=FIELDS,
    partitions=4,
    keys=1_000_000,
    size_bytes=9,
)


def _plan(declared: DeclaredStore | None, running: RunningStore | None) -> Plan:
    stores = {} if running is None else {running.store: running}
    return plan_changes([] if declared is None else [declared], Description(0, stores))


def _change(declared: DeclaredStore | None, running: RunningStore | None = RUNNING) -> Change:
    (change,) = _plan(declared, running).changes
    return change


def test_what_is_declared_as_it_runs_needs_nothing() -> None:
    assert _change(DECLARED).verdict is Verdict.UNCHANGED
    assert _change(replace(DECLARED, partitions=4)).verdict is Verdict.UNCHANGED
    assert _change(DECLARED, None).verdict is Verdict.NEW
    assert not _plan(DECLARED, RUNNING).breaks


def test_pending_migrations_are_explained_with_what_to_trigger() -> None:
    change = _change(replace(DECLARED, steps=(TIER, REGION)))
    assert change.verdict is Verdict.MIGRATE
    assert change.details == (
        "tier: Adds the tier.",
        "field Points removed",
        "field Cents added (bigint)",
        "field Tier added (string)",
        "region: Keys begin with the region.",
        "keys change: callers must ask by the new ones from the hand-over on",
    )
    assert change.conf == {"app": "pos", "migrations": ["tier", "region"]}
    assert (change.keys, change.size_bytes, change.minutes) == (1_000_000, 9, 6)


def test_only_the_migrations_that_are_not_made_yet_are_pending() -> None:
    at_two = replace(RUNNING, migrations=("tier",), generation=2, fields=TIERED)
    assert _change(replace(DECLARED, steps=(TIER, REGION)), at_two).conf["migrations"] == ["region"]
    assert _change(replace(DECLARED, steps=(TIER,)), at_two).verdict is Verdict.UNCHANGED


def test_another_number_of_partitions_takes_a_generation() -> None:
    change = _change(replace(DECLARED, partitions=12))
    assert (change.verdict, change.conf) == (
        Verdict.MIGRATE,
        {"app": "pos", "migrations": [], "partitions": 12},
    )


def test_a_store_whose_app_is_removed_becomes_read_only_and_one_that_its_app_has_lost_is_refused() -> None:
    (removed,) = plan_changes([], Description(0, {"rewards": RUNNING})).changes
    assert (removed.verdict, removed.keys) == (Verdict.READ_ONLY, 1_000_000)
    assert "1,000,000 keys in rewards-log stay" in removed.details[0]
    assert "storekeeper app retire pos" in removed.details[0]
    other = replace(DECLARED, store="points", topic="points-log")
    changes = {change.store: change for change in plan_changes([other], Description(0, {"rewards": RUNNING})).changes}
    assert changes["rewards"].verdict is Verdict.BREAKS
    assert "1,000,000 keys in rewards-log would belong to nobody" in changes["rewards"].details[0]


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        (replace(DECLARED, app="points"), "Keep the app's name"),
        (replace(DECLARED, topic="other"), "would be other instead of rewards-log"),
        (replace(DECLARED, kind="window"), "its keys are keyvalue keys"),
        (replace(DECLARED, fields={"Card": "string"}), "field Points removed"),
        (replace(DECLARED, fields={**FIELDS, "Tier": "string"}), "field Tier added (string)"),
        (replace(DECLARED, fields={**FIELDS, "Points": "bigint"}), "retyped (decimal(18,4) -> bigint)"),
        (
            replace(DECLARED, steps=(TIER,), unchangeable="it keeps 2 stores"),
            "begin with another's content, as it keeps 2",
        ),
        (replace(DECLARED, partitions=12, unchangeable="it keeps 2 stores"), "as it keeps 2 stores."),
    ],
)
def test_what_would_orphan_or_break_state_is_refused(declared: DeclaredStore | None, told: str) -> None:
    change = _change(declared)
    assert change.verdict is Verdict.BREAKS
    assert told in " ".join(change.details)
    assert _plan(declared, RUNNING).breaks


def test_a_migration_that_runs_must_stay() -> None:
    at_two = replace(RUNNING, migrations=("tier",), generation=2, fields=TIERED)
    assert "is missing from the code" in _change(DECLARED, at_two).details[0]
    swapped = replace(DECLARED, steps=(replace(REGION, to_version=2), replace(TIER, to_version=3)))
    assert "is declared to make version 3" in _change(swapped, at_two).details[0]
    changed = replace(DECLARED, steps=(replace(TIER, fields=FIELDS),))
    assert "its values are of version 2" in _change(changed, at_two).details[0]


def test_a_renamed_store_is_recognised() -> None:
    plan = plan_changes([replace(DECLARED, store="points")], Description(0, {"rewards": RUNNING}))
    assert [change.verdict for change in plan.changes] == [Verdict.NEW, Verdict.BREAKS]
    assert "Was it renamed to points?" in plan.changes[1].details[0]


def test_another_score_is_ranked_anew() -> None:
    ranked = replace(RUNNING, kind="ranked", score_field="Points")
    change = _change(replace(DECLARED, kind="ranked", score_field="Other"), ranked)
    assert change.verdict is Verdict.REBUILD


def test_without_a_snapshot_the_fields_are_not_judged() -> None:
    unknown = replace(RUNNING, fields=None, keys=None)
    assert _change(replace(DECLARED, fields={}), unknown).verdict is Verdict.UNCHANGED
    assert _change(replace(DECLARED, steps=(TIER,)), unknown).minutes is None


def test_a_description_is_read_back() -> None:
    inside = AppTopology("pos", 2, ("tier",), {"pairs-left": "window"}, {"pos-by-card-repartition": "shuffle"})
    described = Description(7, {"rewards": replace(RUNNING, migrations=("tier",))}, {"pos": inside})
    assert Description.decode(described.encode()) == described
    for data in (b"", b"{}", b"[]", described.encode().replace(b'"version": 1', b'"version": 2')):
        with pytest.raises(InvalidArgumentError):
            Description.decode(data)


def test_the_first_store_of_an_app_triggers_the_changes_of_all_of_them() -> None:
    tiered = replace(DECLARED, steps=(TIER,), partitions=8)
    other = replace(DECLARED, store="visits", topic="visits-log", partitions=8)
    foreign = replace(DECLARED, store="sums", topic="sums-log", app="counted", steps=(TIER,))
    running = {
        item.store: replace(RUNNING, store=item.store, topic=item.topic, app=item.app)
        for item in (tiered, other, foreign)
    }
    by_store = {
        change.store: change for change in plan_changes([tiered, other, foreign], Description(0, running)).changes
    }
    assert by_store["rewards"].conf == {"app": "pos", "migrations": ["tier"], "partitions": 8}
    assert by_store["visits"].conf == {}
    assert by_store["visits"].details[-1] == "made by the same generation of pos as rewards"
    assert by_store["sums"].conf == {"app": "counted", "migrations": ["tier"]}


def test_a_plan_breaks_before_it_migrates_and_migrates_before_it_does_nothing() -> None:
    unchanged, migrate, breaks = (
        Change("a", verdict) for verdict in (Verdict.UNCHANGED, Verdict.MIGRATE, Verdict.BREAKS)
    )
    assert Plan((unchanged,)).verdict is Verdict.UNCHANGED
    assert Plan((unchanged, migrate)).verdict is Verdict.MIGRATE
    assert Plan((unchanged, migrate, breaks)).verdict is Verdict.BREAKS


def test_fields_by_a_schema_may_change_as_the_registry_allows() -> None:
    by_schema = {**FIELDS, **BY_SCHEMA}
    running = replace(RUNNING, fields=by_schema)
    for fields in (by_schema, {"Card": "string", "Till": "string", **BY_SCHEMA}):
        assert _change(replace(DECLARED, fields=fields), running).verdict is Verdict.UNCHANGED
    for declared, found in ((by_schema, FIELDS), (FIELDS, by_schema)):
        change = _change(replace(DECLARED, fields=declared), replace(RUNNING, fields=found))
        assert change.verdict is Verdict.BREAKS, "values become others"
        assert "field _value" in change.details[0]
