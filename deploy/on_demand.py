"""The on-demand apps as a part of the platform: their topics, and the one process that runs them all."""

from __future__ import annotations

from deploy.layout import RunLayout
from deploy.settings import PlatformSettings
from deploy.topics import TopicSpec, compacted_topic, dead_letter_topic_spec, platform_topics, stream_topic
from spark_apps import registry
from spark_apps.heartbeat import AppState, read_heartbeat
from spark_apps.settings import AppSettings

ON_DEMAND_APPS = tuple(registry.ON_DEMAND_APPS)


def all_topics(settings: PlatformSettings) -> tuple[TopicSpec, ...]:
    """Every topic of the platform, those of the on-demand apps included if these are wanted."""
    topics = platform_topics(settings)
    if settings.apps != "all":
        return topics
    known = {topic.name for topic in topics}
    return (*topics, *(topic for topic in _on_demand_topics(settings) if topic.name not in known))


def together_problem(layout: RunLayout, pid: int, now_ms: int, stale_ms: int) -> str | None:
    """Why the on-demand apps that run as `pid` are not known to work, or None when all their heartbeats say so."""
    for app in ON_DEMAND_APPS:
        heartbeat = read_heartbeat(layout.heartbeat(app))
        if heartbeat is None or heartbeat.pid != pid:
            return f"{app}: starting"
        if heartbeat.state is not AppState.RUNNING:
            return f"{app}: {str(heartbeat.state).lower()}" + (f": {heartbeat.error}" if heartbeat.error else "")
        if heartbeat.age_ms(now_ms) > stale_ms:
            return f"{app}: no heartbeat for {heartbeat.age_ms(now_ms) // 1000} s"
    return None


def _on_demand_topics(settings: PlatformSettings) -> list[TopicSpec]:
    app_settings = AppSettings()
    made: dict[str, TopicSpec] = {}
    for app in registry.ON_DEMAND_APPS.values():
        for topic in (*app.sources(app_settings), *app.sinks(app_settings)):
            made.setdefault(topic, stream_topic(settings, topic))
        for topic in app.dead_letters(app_settings):
            made.setdefault(topic, dead_letter_topic_spec(settings, topic))
        for store in app.stores:
            made[store.changelog_topic] = compacted_topic(settings, store.changelog_topic)
    return list(made.values())
