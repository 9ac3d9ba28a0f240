"""Bringing a platform to what the configuration says: from nothing, or step by step, while the rest runs on.

What can't start doesn't stop what works.

Each step may be repeated, and the plan is made anew at each call. So after a `kill -9` at any point the next call does
what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from storekeeper.apps.registry import APPS
from storekeeper.apps.settings import ClientSettings
from storekeeper.clock import SystemClock
from storekeeper.configuration import own_file, read_file
from storekeeper.generations.deletion import remove_folder
from storekeeper.generations.planning.describe import describe
from storekeeper.ops.airflow_home import prepare_airflow
from storekeeper.ops.bring_up import Outcome, Report, Trouble, bring_up, losses_of, start
from storekeeper.ops.control.app_control import AppFailedError, app_control
from storekeeper.ops.control.node_roll import NodeRoll, NodeViews, held_alone, node_client
from storekeeper.ops.effective import effective, write_started_with
from storekeeper.ops.environment import Instance, app_settings
from storekeeper.ops.errors import AlreadyRunningError, ImpossibleChangeError, SupervisorUnreachableError
from storekeeper.ops.hanging import continue_frozen, end_hanging
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.machine import check_ports, check_room, little_room
from storekeeper.ops.operations import exclusive
from storekeeper.ops.overview.collect import collect_status
from storekeeper.ops.platform_state import planned
from storekeeper.ops.programs import STOP_TIMEOUT_S, Kind, kind_of
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.steps import Action, Step
from storekeeper.ops.supervisor import forget_removed_apps, stop_all, write_conf
from storekeeper.ops.supervisor_rpc import SupervisorRpc, running_supervisor
from storekeeper.ops.waiting import eventually
from storekeeper.run_dir import last_started, make_private

_POLL_S = 0.5
_GONE = frozenset({Action.REMOVE, Action.FORGET})


def up(
    instance: Instance,
    report: Report,
    *,
    accept_loss: bool = False,
    foreground: bool = False,
    only_running: bool = False,
) -> Outcome:
    """Brings the platform up and waits until each part works, or is known not to. Safe to repeat.

    To one that runs it applies the configuration, and heals what was lost.

    Args:
        instance: the platform.
        report: called with each step.
        accept_loss: whether topics are made anew that apps began with and that Kafka doesn't have any more.
        foreground: whether the supervisor is to be a child of this process.
        only_running: whether a platform that is down stays down: its keeper, such as systemd, is to start it.

    Raises:
        SupervisorUnreachableError: it is down, and was to stay so.
        AlreadyRunningError: it runs already, and the supervisor was to be a child of this process.
        PlatformError: nothing can work, with one sentence about what to do. What this call started is stopped again.
    """
    layout = instance.layout
    if _running(layout, only_running=only_running) is None:
        check_room(layout.root)
    make_private(layout.root)
    with exclusive(layout.lock, "up"):
        client = _running(layout, only_running=only_running)
        if client is None:
            return start(instance, report, accept_loss=accept_loss, foreground=foreground)
        if foreground:
            msg = f"The platform in {layout.root} runs already: stop it with `storekeeper down`, or leave it running."
            raise AlreadyRunningError(msg)
        return Outcome(client, troubles=apply(instance, client, report, accept_loss=accept_loss))


def _running(layout: RunLayout, *, only_running: bool) -> SupervisorRpc | None:
    client = running_supervisor(layout)
    if client is None and only_running:
        msg = f"The platform in {layout.root} is down: `storekeeper up` starts it with this configuration."
        raise SupervisorUnreachableError(msg)
    return client


def check_no_other(settings: PlatformSettings) -> None:
    """Checks, before a new platform is made, that no other one is up that the user may have meant.

    Raises:
        AlreadyRunningError: one is, and the run directory was not named.
    """
    other = last_started()
    if settings.names_run_dir or settings.run_dir.exists() or other is None or own_file() is not None:
        return
    if running_supervisor(RunLayout(other)) is not None:
        raise AlreadyRunningError(
            f"The platform in {other} is up, and commands in this folder use it: stop it with `storekeeper down`, or "
            f"start a second one with STOREKEEPER_RUN_DIR set to {settings.run_dir}, and with ports of its own."
        )


def apply(
    instance: Instance, client: SupervisorRpc, report: Report, *, accept_loss: bool = False
) -> tuple[Trouble, ...]:
    """Does the steps from what runs to what the configuration says. The caller holds the run directory's lock. `report`
    is called with each step. With `accept_loss`, topics are made anew that apps began with and that Kafka doesn't have
    any more. Returns what doesn't work.

    Raises:
        ImpossibleChangeError: a setting can't change so. Nothing was done.
        PlatformError: nothing can work, as there is no broker or no room on the disk, or all of Kafka's data is lost.
    """
    todo = planned(instance, client, describe(app_settings(instance.settings), SystemClock()))
    if impossible := [step for step in todo if step.action is Action.IMPOSSIBLE]:
        raise ImpossibleChangeError(f"{'. '.join(map(str, impossible))}. Nothing was changed.")
    if instance.settings.embeds_airflow:
        prepare_airflow(instance.layout, instance.settings)  # the forms offer the apps and migrations of now
    continue_frozen(client, report)
    seen = collect_status(instance.settings)
    # An app that has nothing to read is healthy without its topics.
    if not todo and seen.healthy and (accept_loss or not losses_of(instance.settings).topics):
        report(f"everything runs already{little_room(instance.layout.root)}")
        return ()
    check_room(instance.layout.root)
    end_hanging(client, seen.processes, instance.settings, report)
    return _Applying(instance, client, report).do(todo, accept_loss=accept_loss)


@dataclass(frozen=True, slots=True)
class _Applying:
    instance: Instance
    client: SupervisorRpc
    report: Report

    def do(self, todo: Sequence[Step], *, accept_loss: bool) -> tuple[Trouble, ...]:
        self._check_ports()
        self._write()
        for step in todo:
            if step.action is not Action.FORGET:
                self.report(str(step))
        nodes = [step for step in todo if kind_of(step.subject) is Kind.NODE]
        self._clear(step for step in todo if step not in nodes)
        self._update_idle()
        first = next((at for at, step in enumerate(nodes) if step.action is not Action.START), len(nodes))
        held = {step.subject: " ".join(step.why) for step in todo if step.action is Action.BLOCKED}
        later = {step.subject: "" for step in nodes[first:] if step.action is not Action.RESTART}
        troubles = bring_up(self.instance, self.client, self.report, accept_loss=accept_loss, held={**held, **later})
        return (*troubles, *self._roll(nodes[first:]))

    def _check_ports(self) -> None:
        """Checks the ports that the platform doesn't have yet."""
        settings = self.instance.settings
        before = read_file(self.instance.layout.started_with) if self.instance.layout.started_with.is_file() else {}
        known = {name: value for name, value in before.items() if name in PlatformSettings.model_fields}
        had = PlatformSettings.load(**{**known, "run_dir": settings.run_dir}).ports.values() if known else ()
        check_ports({name: port for name, port in settings.ports.items() if port not in had})

    def _write(self) -> None:
        """Writes what processes read when they start."""
        layout, settings = self.instance.layout, self.instance.settings
        write_conf(layout, settings, self.instance.programs)
        write_started_with(layout, effective(settings))

    def _clear(self, todo: Iterable[Step]) -> None:
        """Stops what is to go, and what is to start anew: `bring_up` starts it. Apps finish their batches."""
        stopping = [step for step in todo if step.action in {*_GONE, Action.RESTART}]
        others = [step.subject for step in stopping if kind_of(step.subject) is not Kind.APP]
        settings = ClientSettings.load(run_dir=self.instance.settings.run_dir)
        for step in stopping:
            if step.subject not in others:
                app_control(step.subject, settings, self.client).drain()
        stop_all(self.client, others, STOP_TIMEOUT_S + 5)
        for step in stopping:
            self.client.update(step.subject)
        forget_removed_apps(self.instance.layout, APPS)

    def _update_idle(self) -> None:
        """Makes the supervisor know all processes, and start those that don't run by their commands of now."""
        infos = {info.name: info for info in self.client.processes()}
        for program in self.instance.programs:
            if program.name not in infos or not infos[program.name].is_wanted:
                self.client.update(program.name)

    def _roll(self, todo: Sequence[Step]) -> tuple[Trouble, ...]:
        """Restarts, removes and starts nodes, one after the other, while others answer."""
        if not todo:
            return ()
        settings = ClientSettings.load(run_dir=self.instance.settings.run_dir)
        with node_client(settings) as http:
            views = NodeViews(self.instance.settings.node_urls, http)
            changes = (self._change(step, views) for step in todo)
            return tuple(trouble for trouble in changes if trouble is not None)

    def _change(self, step: Step, views: NodeViews) -> Trouble | None:
        self.report(f"{step.subject} {step.action} now")
        node = step.subject.removeprefix("node-")
        waits: list[str | None] = [None]

        def done() -> bool:
            waits[0] = self._removed(node, views) if step.action in _GONE else roll.step()
            return waits[0] is None

        roll = self._roll_of(step, views)
        try:
            if step.action is Action.START:
                self.client.update(step.subject)
                self.client.start(step.subject)
            if eventually(done, self.instance.settings.start_timeout_s, _POLL_S):
                return None
        except AppFailedError as error:
            return Trouble(step.subject, str(error))
        return Trouble(step.subject, f"{waits[0]} (after {self.instance.settings.start_timeout_s} s: apply again)")

    def _roll_of(self, step: Step, views: NodeViews) -> NodeRoll:
        """One that starts a node again which runs, and only waits for one that starts now."""
        node, began_s = step.subject.removeprefix("node-"), 0
        if step.action is Action.RESTART:
            started_s, now_s = self.client.process(step.subject).started_at_ms // 1000, SystemClock().now_ms() // 1000
            began_s = started_s + 1 if started_s <= now_s else now_s  # the clock was ahead
        return NodeRoll((node,), self.client, views, began_s, renew=self.client.update, may_pause=self._is_alone(step))

    def _is_alone(self, step: Step) -> bool:
        """Whether no other node runs, so that reads pause while this one starts again."""
        others = (info for info in self.client.processes() if info.name != step.subject)
        return not any(info.is_wanted and kind_of(info.name) is Kind.NODE for info in others)

    def _removed(self, node: str, views: NodeViews) -> str | None:
        """Removes a node once others answer for its partitions. Returns what it waits for; None if it is gone."""
        program = f"node-{node}"
        if program not in self.client.names():
            return None
        if self.client.process(program).is_wanted and self.instance.settings.node_names:
            view = views.cluster()
            alone = ["a partition that no node tells of"] if view is None else held_alone(view, node)
            if alone:
                return f"no other node can answer for {', '.join(alone[:10])}, so {program} has to stay up"
        if not stop_all(self.client, [program], STOP_TIMEOUT_S + 5):
            return f"{program} is stopping"
        self.client.update(program)
        remove_folder(self.instance.layout.root / "state" / node)
        return None
