"""The on-demand apps as a part of the platform: their topics, and the one process that runs them all."""

from __future__ import annotations

from deploy.settings import PlatformSettings
from deploy.topics import TopicSpec, compacted_topic, dead_letter_topic_spec, platform_topics, stream_topic
from spark_apps import registry
from spark_apps.settings import AppSettings


def all_topics(settings: PlatformSettings) -> tuple[TopicSpec, ...]:
    """Every topic of the platform, those of the on-demand apps included if these are wanted."""
    topics = platform_topics(settings)
    if settings.apps != "all":
        return topics
    known = {topic.name for topic in topics}
    return (*topics, *(topic for topic in _on_demand_topics(settings) if topic.name not in known))


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
