"""Taking the steps of generations as a user does, and reading what a changelog adds up to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from harness.app_process import AppProcesses
from harness.broker import Broker
from harness.changelog_records import read_changelog


@dataclass
class GenerationSteps:
    """A broker, and the processes of an app."""

    broker: Broker
    apps: AppProcesses

    def step(self, *arguments: str) -> dict[str, Any]:
        """Takes a step that must succeed."""
        code, answer = self.tried(*arguments)
        assert code == 0, answer
        return answer

    def tried(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        """Takes a step; its exit code and its answer, or its `error`."""
        done = self.apps.run("generation", *arguments, "--output", "json")
        if done.stdout:
            return done.returncode, orjson.loads(done.stdout.splitlines()[-1])
        error = "\n".join(line for line in done.stderr.splitlines() if line.startswith("storekeeper: "))
        assert error, done.stderr[-3000:]
        return done.returncode, {"error": error}

    def content(self, topic: str) -> dict[bytes, bytes]:
        """What a changelog adds up to."""
        rows: dict[bytes, bytes] = {}
        for key, value in read_changelog(self.broker.kafka, topic):
            rows.pop(key, None)
            if value is not None:
                rows[key] = value
        return rows
