"""The topics of the on-demand apps."""

from __future__ import annotations

from deploy.on_demand import all_topics
from deploy.settings import PlatformSettings
from deploy.topics import platform_topics
from spark_apps.registry import ON_DEMAND_APPS, ON_DEMAND_STORES
from spark_apps.settings import AppSettings


def test_every_topic_of_every_app_is_made_once_and_changelogs_are_compacted() -> None:
    topics = all_topics(PlatformSettings.load(apps="all"))
    policies = {topic.name: topic.config["cleanup.policy"] for topic in topics}
    assert len(policies) == len(topics)
    assert policies.keys() >= {topic for app in ON_DEMAND_APPS.values() for topic in app.topics(AppSettings())}
    changelogs = {store.changelog_topic for store in ON_DEMAND_STORES.values()} | {"loyalty-rewards-changelog"}
    assert {name for name, policy in policies.items() if policy == "compact"} == changelogs


def test_without_them_there_are_those_of_the_tills_alone() -> None:
    settings = PlatformSettings.load(apps="pos")
    assert all_topics(settings) == platform_topics(settings)
