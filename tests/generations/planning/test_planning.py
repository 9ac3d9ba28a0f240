"""What the apps declare, what a run directory tells, and the plan of one app's change."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

from spark_apps.pos import POS, by_region, topology
from storekeeper.apps.registry import stores
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import described, kept_inside
from storekeeper.cli.entry import app
from storekeeper.clock import SystemClock
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner, ServedStore
from storekeeper.errors import ConfigurationError
from storekeeper.generations import planning
from storekeeper.generations.catalog import first_journal
from storekeeper.generations.changes.contract import DeclaredStore, Description, RunningStore, Step
from storekeeper.generations.changes.plan import Change, Plan, Verdict, plan_changes
from storekeeper.generations.journal import GenerationState, JournalFile
from storekeeper.generations.planning import describe as describing
from storekeeper.generations.planning.declared import declared_stores, with_topologies
from storekeeper.generations.planning.describe import describe
from storekeeper.generations.planning.plan import plan_of_app
from storekeeper.generations.steps import planned
from storekeeper.program import ExitCode
from storekeeper.stores.store_definitions import ServedKind
from tests.snapshot_tables import rows_of, write_snapshot

REWARDS = POS.stores[0]
ROWS = rows_of(
    {
        b"%d" % number: b'{"CustomerCardNo":"%d","TotalLoyaltyPoints":1.0,"InvoiceCount":1,"LastInvoiceTime":0}'
        % number
        for number in (1, 2)
    }
)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AppSettings:
    """Those of a run directory in which `rewards` was snapshot. Its broker, which tells partitions, doesn't answer."""
    monkeypatch.setattr("storekeeper.generations.planning.describe._with_partitions", lambda found, _settings: found)
    found = AppSettings(run_dir=tmp_path)
    write_snapshot(
        found.delta_table("rewards"),
        ROWS,
        REWARDS.value_fields,
        store="rewards",
        app="pos",
        changelog_topic=REWARDS.changelog_topic,
        changelog_offsets=dict.fromkeys(range(4), 1),
    )
    return found


def _running(settings: AppSettings) -> Description:
    return describe(settings, SystemClock())


def _rewards() -> DeclaredStore:
    return next(store for store in declared_stores() if store.store == "rewards")


def test_every_store_is_declared_and_fits_its_own_snapshot(settings: AppSettings) -> None:
    assert {store.store for store in declared_stores()} == stores().keys()
    rewards = _running(settings).stores["rewards"]
    assert (rewards.keys, rewards.partitions, rewards.generation, rewards.version) == (2, 4, 1, 1)
    assert rewards.size_bytes is not None
    assert rewards.size_bytes > 0
    assert rewards.fields == _rewards().fields
    assert not plan_changes(declared_stores(), _running(settings)).breaks


def test_the_kind_of_a_store_is_that_of_its_snapshot_and_not_of_the_new_code(settings: AppSettings) -> None:
    write_snapshot(
        settings.delta_table("rewards"),
        ROWS,
        REWARDS.value_fields,
        store="rewards",
        app="pos",
        changelog_topic=REWARDS.changelog_topic,
        kind=ServedKind.RANKED,
        score_field="InvoiceCount",
    )
    running = _running(settings)
    assert (running.stores["rewards"].kind, running.stores["rewards"].score_field) == ("ranked", "InvoiceCount")
    (change,) = plan_changes([_rewards()], running).changes
    assert change.verdict is Verdict.BREAKS
    assert "It would be read as keyvalue, but its keys are ranked keys" in " ".join(change.details)


def test_a_store_without_a_snapshot_is_that_of_its_apps_last_start(settings: AppSettings) -> None:
    shutil.rmtree(settings.run_dir / "delta")
    path = settings.checkpoint_dir("pos")
    for began, why in (
        (ServedStore("keyvalue", None, {"Renamed": "bigint"}), "field Renamed removed"),
        (ServedStore("window", None, REWARDS.fields), "It would be read as keyvalue, but its keys are window keys"),
    ):
        CheckpointOwner("pos", 1, served={"rewards": began}).write(path)
        (change,) = plan_changes([_rewards()], _running(settings)).changes
        assert change.verdict is Verdict.BREAKS
        assert why in " ".join(change.details)
    CheckpointOwner("pos", 1, served={"rewards": ServedStore("keyvalue", None, REWARDS.fields)}).write(path)
    assert not plan_changes([_rewards()], _running(settings)).breaks


def test_a_store_that_the_topology_got_after_a_migration_is_as_declared(settings: AppSettings) -> None:
    journal = planned(first_journal(POS), POS, [])
    other = replace(journal.generation(2), state=GenerationState.LIVE, topics={})
    old = replace(journal.live_generation, state=GenerationState.RETIRED, topics={})
    JournalFile(settings.run_dir, "pos").write(journal.updated(old, other, live=2))
    write_snapshot(
        settings.delta_table("rewards"), ROWS, REWARDS.value_fields,
        store="rewards", app="pos", changelog_topic=f"{REWARDS.changelog_topic}-g2", generation=2,
    )  # fmt: skip
    found = _running(settings).stores["rewards"]
    assert (found.generation, found.topic) == (2, REWARDS.changelog_topic)
    shutil.rmtree(settings.run_dir / "delta")
    Path(str(settings.in_generation(2).checkpoint_dir("pos"))).mkdir(parents=True)
    assert _running(settings).stores["rewards"].topic == REWARDS.changelog_topic


def test_a_store_whose_changelog_is_gone_has_the_partitions_of_its_snapshot(
    settings: AppSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = SimpleNamespace(missing=lambda names: names)
    monkeypatch.setattr(describing, "Topics", lambda _: gone)
    assert describe(settings, SystemClock()).stores["rewards"].partitions == 4


def test_every_store_of_an_app_that_can_have_generations_can_be_changed() -> None:
    assert [store.store for store in declared_stores() if store.unchangeable is not None] == []


def test_all_stores_of_an_app_change_to_one_number_of_partitions() -> None:
    numbers = {item.store: item.partitions for item in declared_stores({"rewards": 7}) if item.partitions}
    assert numbers == {"rewards": 7}
    with pytest.raises(ConfigurationError, match="players=7 and products=8 can't be"):
        declared_stores({"players": 7, "products": 8})
    with pytest.raises(ConfigurationError, match=r"store \S+ of leaderboard has as many partitions as \S+, because"):
        declared_stores({"players": 7})


def test_what_runs_is_told_by_the_journal_of_generations(settings: AppSettings) -> None:
    journal = planned(first_journal(POS), POS, ("rewards-tier",))
    live = replace(journal.generation(2), state=GenerationState.LIVE)
    JournalFile(settings.run_dir, "pos").write(replace(journal.updated(live), live=2))
    (settings.run_dir / "checkpoints" / "pos" / "gen-2").mkdir(parents=True)
    rewards = _running(settings).stores["rewards"]
    assert (rewards.generation, rewards.migrations) == (2, ("rewards-tier",))
    assert rewards.topic == "pos-rewards-changelog", "the first generation's"
    assert rewards.fields is None, "the snapshot is of another generation"


def test_a_migration_that_runs_and_is_not_there_any_more_breaks_the_plan(settings: AppSettings) -> None:
    journal = first_journal(POS)
    live = replace(journal.live_generation, migrations=("rewards-tier", "gone.changes:ADD_LEVEL"))
    JournalFile(settings.run_dir, "pos").write(journal.updated(live))
    running = _running(settings)
    assert running.stores["rewards"].migrations == ("rewards-tier", "gone.changes:ADD_LEVEL")
    (change,) = plan_changes([_rewards()], running).changes
    assert change.verdict is Verdict.BREAKS
    assert "gone.changes:ADD_LEVEL" in " ".join(change.details)


def test_a_store_or_a_repartition_that_the_code_has_no_more_breaks_the_plan(settings: AppSettings) -> None:
    inside = kept_inside(described("pos", topology, settings))
    path = settings.checkpoint_dir("pos")
    CheckpointOwner("pos", 1, None, {}, {}, *inside).write(path)
    running = _running(settings)
    assert running.topologies["pos"].repartitions == inside[1]
    plan = with_topologies(Plan(()), running)
    assert {change.store: change.verdict for change in plan.changes} == dict.fromkeys(inside[1], Verdict.UNCHANGED)
    CheckpointOwner("pos", 1, None, {}, {}, {"gone": "window"}, inside[1]).write(path)
    running = _running(settings)
    broken = [change for change in with_topologies(Plan(()), running).changes if change.verdict is Verdict.BREAKS]
    assert [change.store for change in broken] == ["gone"]


def test_what_a_migration_takes_out_is_not_asked_for(settings: AppSettings) -> None:
    journal = planned(first_journal(POS), POS, ("rewards-tier", "rewards-by-region"))
    live = replace(journal.generation(2), state=GenerationState.LIVE)
    JournalFile(settings.run_dir, "pos").write(replace(journal.updated(live), live=2))
    second = settings.model_copy(update={"generation": 2})
    inside = kept_inside(described("pos", by_region, settings.model_copy(update={"generation": 2})))
    CheckpointOwner("pos", 2, None, {}, {}, *inside).write(second.checkpoint_dir("pos"))
    running = _running(settings)
    assert {change.verdict for change in with_topologies(Plan(()), running).changes} == {Verdict.UNCHANGED}


def test_a_table_that_can_not_be_read_hides_no_other(settings: AppSettings) -> None:
    log = settings.run_dir / "delta" / "broken" / "_delta_log"
    log.mkdir(parents=True)
    (log / "00000000000000000000.json").write_text("{")
    assert _running(settings).stores.keys() == {"rewards"}


def _change(
    running: RunningStore, migrations: list[str], *, copy: bool = False, partitions: int | None = None
) -> Change:
    declared = replace(_rewards(), partitions=partitions)
    (change,) = plan_of_app([declared], {"rewards": running}, migrations, copy=copy).changes
    return change


def test_an_app_is_changed_by_the_migrations_that_are_named(settings: AppSettings) -> None:
    running = _running(settings).stores["rewards"]
    change = _change(running, ["rewards-tier"])
    assert (change.verdict, change.conf) == (Verdict.MIGRATE, {"app": "pos", "migrations": ["rewards-tier"]})
    both = _change(running, ["rewards-tier", "rewards-by-region"])
    assert "keys change" in " ".join(both.details)
    assert _change(running, []).verdict is Verdict.UNCHANGED
    copied = _change(running, [], copy=True)
    assert (copied.verdict, copied.conf) == (
        Verdict.MIGRATE,
        {"app": "pos", "migrations": [], "copy": True},
    )
    assert _change(running, ["rewards-tier"], copy=True) == change
    assert _change(running, [], partitions=9).conf["partitions"] == 9


SUMS = DeclaredStore("sums", "counted", "sums-log", "keyvalue", None, {"Sum": "bigint"})
TENS = replace(SUMS, store="tens", topic="tens-log", kind="window")
DOUBLED = Step("doubled", "Doubles.", 2, {"Sum": "bigint"})
NAMED = Step("named", "Names.", 2, {"Sum": "bigint", "Name": "string"})
COUNTED = {
    item.store: RunningStore(item.store, "counted", item.topic, item.kind, fields=item.fields, partitions=4)
    for item in (SUMS, TENS)
}


def test_one_generation_makes_the_changes_of_all_stores_of_an_app() -> None:
    declared = [replace(SUMS, steps=(DOUBLED,)), replace(TENS, steps=(NAMED,))]
    first, second = plan_of_app(declared, COUNTED, ["named", "doubled"]).changes
    assert first.conf == {"app": "counted", "migrations": ["doubled", "named"]}
    assert (second.conf, second.details[-1]) == ({}, "made by the same generation of counted as sums")
    assert second.verdict is Verdict.MIGRATE
    unchanged, alone = plan_of_app(declared, COUNTED, ["named"]).changes
    assert (unchanged.verdict, alone.conf["migrations"]) == (Verdict.UNCHANGED, ["named"])
    copied, beside = plan_of_app(declared, COUNTED, [], copy=True).changes
    assert (copied.conf, beside.conf) == ({"app": "counted", "migrations": [], "copy": True}, {})
    assert plan_of_app(declared, COUNTED, ["named"], copy=True).changes[0].verdict is Verdict.UNCHANGED
    with pytest.raises(ConfigurationError, match="those of counted that are not made are doubled -> named"):
        plan_of_app(declared, COUNTED, ["other"])


@pytest.mark.usefixtures("called_here")
def test_a_plan_is_about_every_store_of_the_app_and_refused_if_nothing_is_to_be_done(
    settings: AppSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning.plan, "describe", lambda *_: _running(settings))
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(settings.run_dir.parent))

    def called(*options: str) -> Result:
        return CliRunner().invoke(app, ["generation", "plan", "leaderboard", *options, "--output", "json"])

    early = called("--copy")
    assert early.exit_code == ExitCode.CONFIGURATION
    assert "leaderboard has not begun yet" in early.stderr
    (settings.run_dir / "checkpoints" / "leaderboard" / "gen-1").mkdir(parents=True)
    copied, unchanged = called("--copy"), called()
    plan = json.loads(copied.stdout)
    assert copied.exit_code == 0
    assert (plan["verdict"], plan["stores"]) == ("migrate", ["standings", "players", "products"])
    assert plan["conf"] == {"app": "leaderboard", "migrations": [], "copy": True}
    assert "**players** can be changed" in plan["text"]
    assert "**products** can be changed" in plan["text"]
    assert unchanged.exit_code == ExitCode.REFUSED
    assert json.loads(unchanged.stdout)["verdict"] == "unchanged"


@pytest.mark.parametrize(
    ("names", "made", "told"),
    [
        (["no-such"], (), "there is no migration 'no-such'"),
        (["rewards-by-region"], (), "leave none out"),
        (["rewards-by-region", "rewards-tier"], (), "in the order rewards-tier -> rewards-by-region"),
        (["rewards-tier"], ("rewards-tier",), "has already run"),
    ],
)
def test_migrations_that_do_not_fit_are_refused(
    settings: AppSettings, names: list[str], made: tuple[str, ...], told: str
) -> None:
    running: RunningStore = replace(_running(settings).stores["rewards"], migrations=made)
    with pytest.raises(ConfigurationError, match=told):
        _change(running, names)
