"""The page of settings is the settings classes, and nothing else."""

from __future__ import annotations

from pathlib import Path

from storekeeper.ops.settings_reference import ROLES, settings_markdown, settings_of

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_in_docs_is_what_the_command_prints() -> None:
    assert (ROOT / "docs" / "reference" / "settings.md").read_text() == settings_markdown()


def test_every_setting_says_what_it_is_for() -> None:
    silent = [s.variable for _, _, settings in ROLES for s in settings_of(settings) if not s.description]
    assert silent == []


def test_every_number_has_a_unit() -> None:
    for _, _, role in ROLES:
        for setting in settings_of(role):
            number = isinstance(setting.default_value, int | float) and not isinstance(setting.default_value, bool)
            assert bool(setting.unit) >= number, setting.name


def test_the_page_names_no_path_of_this_machine() -> None:
    assert str(ROOT) not in settings_markdown()
