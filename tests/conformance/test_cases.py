"""Every case of the case files beside this module, on every backend that is there."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.backend import Backends, all_backends
from tests.conformance.case import Case, load_cases, matches, plain
from tests.conformance.runner import FAILED, PASSED, SKIPPED, registry, run_case

CASES = [case for file in sorted((Path(__file__).parent / "cases").glob("*.jsonl")) for case in load_cases(file)]


@pytest.fixture(scope="module")
def backends() -> Iterator[Backends]:
    with all_backends() as present:
        yield present


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case, backends: Backends) -> None:
    failures = [outcome for outcome in run_case(case, backends) if outcome.status == FAILED]
    assert not failures, "\n".join(f"{outcome.backend}: {outcome.reason}" for outcome in failures)


def test_a_wrong_expectation_fails(backends: Backends) -> None:
    ops = [["put", "a", "1"], ["get", "a", "2"]]
    wrong = Case("wrong", "kv", {"key_type": "utf8", "value_type": "utf8"}, ops, None, "must")
    assert {outcome.status for outcome in run_case(wrong, backends)} - {SKIPPED} == {FAILED}


def test_an_error_that_does_not_come_fails(backends: Backends) -> None:
    ops = [["expect_error", "null_key", ["put", "a", "1"]]]
    wrong = Case("wrong", "kv", {"key_type": "utf8", "value_type": "utf8"}, ops, None, "must")
    assert {outcome.status for outcome in run_case(wrong, backends)} - {SKIPPED} == {FAILED}


def test_partitions_that_are_moving_are_refused_as_nodes_do(backends: Backends) -> None:
    moving = ["expect_error", "store_unavailable", ["get", "a"]]
    ops: list[list[Any]] = [
        ["shard_put", 0, "a", "1"],
        ["rebalancing", True],
        moving,
        ["rebalancing", False],
        ["get", "a", "1"],
    ]
    case = Case("moving", "composite", {"key_type": "utf8", "value_type": "utf8", "shards": 2}, ops, None, "must")
    assert {outcome.status for outcome in run_case(case, backends)} - {SKIPPED} == {PASSED}


def test_what_nodes_do_not_answer_is_skipped_with_the_reason(backends: Backends) -> None:
    case = next(case for case in CASES if case.id == "composite-005")
    reasons = {outcome.reason for outcome in run_case(case, backends) if outcome.backend in backends.kinds}
    assert reasons == {"a node doesn't count the rows of a store"}


def test_matching() -> None:
    assert matches(plain([("a", 1), ("b", 2)]), {"any_order": [["b", 2], ["a", 1]]})
    assert not matches([["a", 1]], {"any_order": [["a", 1], ["a", 1]]})
    assert matches("anything", {"unasserted": True})
    assert not matches([1, 2], [1])


def test_the_store_kinds_of_the_library_have_adapters() -> None:
    kinds = {"kv", "window", "session", "cache", "changelog", "lru_store", "composite", "migration", "ttl", "codec"}
    assert kinds <= registry().keys()


def test_a_wrong_expectation_of_a_topology_fails(backends: Backends) -> None:
    right = next(case for case in CASES if case.topology is not None and case.topology.get("expect"))
    assert right.topology is not None
    expect = [{"after": 0, "out": [["never", "comes", 0]]}]
    wrong = dataclasses.replace(right, topology={**right.topology, "expect": expect})
    assert [outcome.status for outcome in run_case(wrong, backends)] == [FAILED]


def test_every_case_that_we_must_pass_is_run(backends: Backends) -> None:
    needed = [case for case in CASES if case.topology is not None and case.level in {"must", "adapt"}]
    skipped = [case.id for case in needed for outcome in run_case(case, backends) if outcome.status == SKIPPED]
    assert not skipped
