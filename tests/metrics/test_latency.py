from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from storekeeper.metrics.latency import LatencyRecorder


@given(st.lists(st.integers(-5, 2**50), max_size=30))
def test_every_observation_is_below_its_bound_and_counted_once(observations: list[int]) -> None:
    recorder = LatencyRecorder()
    for elapsed_ns in observations:
        recorder.record(elapsed_ns)
    cumulative = recorder.cumulative()
    assert recorder.count == len(observations) == cumulative[-1][1]
    assert recorder.total_ns == sum(max(elapsed_ns, 0) for elapsed_ns in observations)
    for bound_s, count in cumulative[:-1]:
        assert count == sum(max(elapsed_ns, 0) < bound_s * 1e9 for elapsed_ns in observations)
    assert cumulative[-1][0] == float("inf")
