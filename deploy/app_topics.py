"""The topics of the apps that the platform runs."""

from __future__ import annotations

from collections.abc import Iterable

from deploy.settings import PlatformSettings
from deploy.topics import TopicSpec, compacted_topic, dead_letter_topic_spec, stream_topic
from deploy.wanted_apps import wanted_apps
from spark_apps.settings import AppSettings
from spark_apps.spec import AppSpec


def all_topics(settings: PlatformSettings) -> tuple[TopicSpec, ...]:
    """Every topic of the platform, in the order of its apps."""
    return topics_of(settings, wanted_apps(settings).values())


def topics_of(settings: PlatformSettings, apps: Iterable[AppSpec]) -> tuple[TopicSpec, ...]:
    """The topics of some apps: sources, sinks, dead letters and changelogs, as the platform makes them."""
    app_settings = AppSettings()
    made: dict[str, TopicSpec] = {}
    for app in apps:
        for topic in (*app.sources(app_settings), *app.sinks(app_settings)):
            made.setdefault(topic, stream_topic(settings, topic))
        for topic in app.dead_letters(app_settings):
            made.setdefault(topic, dead_letter_topic_spec(settings, topic))
        for store in app.stores:
            made[store.changelog_topic] = compacted_topic(settings, store.changelog_topic)
    return tuple(made.values())
