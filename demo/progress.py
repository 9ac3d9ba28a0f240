"""The apps' progress with the demo's input, and waiting until they have processed all of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from storekeeper.apps.registry import APPS, driver_of
from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, read_heartbeat
from storekeeper.engine.runtime.topics import Topics
from storekeeper.ops.errors import StartError
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.machine import check_not_full
from storekeeper.ops.settings import PlatformSettings


@dataclass(frozen=True, slots=True)
class AppProgress:
    """How many records of its sources an app has processed, and the total."""

    app: str
    processed: int
    total: int

    @property
    def done(self) -> bool:
        """Whether nothing is left."""
        return self.processed >= self.total


def app_progress(heartbeat: Heartbeat | None, app: str, ends: Mapping[str, Mapping[int, int]]) -> AppProgress:
    """An app's progress by its heartbeat, against the ends of its sources' partitions (exclusive), by topic."""
    total = sum(end for partitions in ends.values() for end in partitions.values())
    if heartbeat is None:
        return AppProgress(app, 0, total)
    processed = 0
    for topic, partitions in ends.items():
        offsets = heartbeat.offsets.get(topic, {})
        processed += sum(min(int(offsets.get(str(partition), 0)), end) for partition, end in partitions.items())
    return AppProgress(app, processed, total)


def wait_until_processed(
    platform: PlatformSettings, timeout_s: float, on_progress: Callable[[list[AppProgress]], None]
) -> None:
    """Waits until every app has processed its sources to the end, twice in a row (one app's output is another's input).

    Raises:
        StartError: it took longer than `timeout_s`; the message names the app that is behind.
        DiskSpaceError: the disk ran full during the wait.
    """
    topics = Topics(platform.kafka)
    deadline = time.monotonic() + timeout_s
    quiet = 0
    while quiet < 2:
        check_not_full(platform.run_dir)
        found = _progress(platform, topics)
        if found:
            on_progress(found)
        quiet = quiet + 1 if found and all(progress.done for progress in found) else 0
        if time.monotonic() >= deadline:
            _give_up(platform, found, timeout_s)
        time.sleep(0.5)


def _progress(platform: PlatformSettings, topics: Topics) -> list[AppProgress]:
    settings, layout = AppSettings(), RunLayout(platform.run_dir)
    sources = {name: app.sources(settings) for name, app in APPS.items()}
    try:
        ends = topics.end(sorted({topic for own in sources.values() for topic in own})).offsets
    except BrokerUnavailableError:
        return []  # it is being restarted
    return [
        app_progress(read_heartbeat(layout.heartbeat(app)), app, {topic: ends[topic] for topic in own})
        for app, own in sources.items()
    ]


def _give_up(platform: PlatformSettings, found: list[AppProgress], timeout_s: float) -> None:
    layout = RunLayout(platform.run_dir)
    behind = next((progress for progress in found if not progress.done), None)
    if behind is None:
        msg = f"Kafka does not answer: see {layout.log('kafka')}."
        raise StartError(msg)
    heartbeat = read_heartbeat(layout.heartbeat(behind.app))
    state = heartbeat.state if heartbeat else AppState.STOPPED
    msg = (
        f"{behind.app} ({state}) has processed {behind.processed} of {behind.total} records after {timeout_s:.0f} s: "
        f"see {layout.log(driver_of(behind.app))}."
    )
    raise StartError(msg)
