from __future__ import annotations

import random
from typing import Any

import pytest

from spark_apps.leaderboard.spec import LEADERBOARD
from spark_apps.leaderboard.topology import REMEMBERED_RESULTS
from spark_apps.testkit import Crash, TopologyDriver, plain_driver
from spark_apps.testkit.fixtures import MakeDriver
from tests.spark_apps.events import past


def result(result_id: str, player: str, score: int, product: str = "chess", time_ms: int = past(0)) -> dict[str, Any]:
    return {"ResultID": result_id, "PlayerID": player, "ProductID": product, "Score": score, "PlayedTime": time_ms}


def play(driver: TopologyDriver, player: str, *results: dict[str, Any]) -> None:
    for value in results:
        driver.pipe("game-results", player, value)
    driver.run()


@pytest.fixture
def driver() -> TopologyDriver:
    return plain_driver(LEADERBOARD)


def test_a_player_has_a_best_score_a_sum_and_a_name(driver: TopologyDriver) -> None:
    driver.pipe("players", "p1", {"Name": "Ada"})
    play(driver, "p1", result("r1", "p1", 30), result("r2", "p1", 50, "go"), result("r3", "p1", 10, time_ms=past(-5)))
    assert driver.store("players").get("p1") == {
        "PlayerID": "p1",
        "Name": "Ada",
        "HighScore": 50,
        "HighScoreProduct": "go",
        "GamesPlayed": 3,
        "TotalScore": 90,
        "LastPlayed": past(-5),
    }


def test_equal_best_scores_are_told_apart_by_name_in_whatever_order(driver: TopologyDriver) -> None:
    play(driver, "p1", result("r1", "p1", 5, "go"), result("r2", "p1", 5, "chess"))
    play(driver, "p2", result("r1", "p2", 5, "chess"), result("r2", "p2", 5, "go"))
    rows = driver.store("players").all()
    assert rows["p1"]["HighScoreProduct"] == rows["p2"]["HighScoreProduct"] == "chess"


def test_a_result_that_comes_twice_counts_once(driver: TopologyDriver) -> None:
    play(driver, "p1", result("r1", "p1", 5), result("r1", "p1", 5))
    play(driver, "p1", result("r1", "p1", 5))
    assert driver.store("players").all()["p1"]["GamesPlayed"] == 1


def test_so_many_results_are_remembered(driver: TopologyDriver) -> None:
    play(driver, "p1", *(result(f"r{n}", "p1", 1) for n in range(REMEMBERED_RESULTS + 1)))
    play(driver, "p1", result("r1", "p1", 1))
    assert driver.store("players").all()["p1"]["GamesPlayed"] == REMEMBERED_RESULTS + 1
    play(driver, "p1", result("r0", "p1", 1))
    assert driver.store("players").all()["p1"]["GamesPlayed"] == REMEMBERED_RESULTS + 2


def test_a_player_who_has_not_played_has_no_rank(driver: TopologyDriver) -> None:
    driver.pipe("players", "p1", {"Name": "Ada"})
    driver.run()
    assert driver.store("players").all() == {}
    play(driver, "p1", result("r1", "p1", 0))
    assert driver.store("players").all()["p1"]["Name"] == "Ada"


def test_a_player_who_leaves_leaves_the_board(driver: TopologyDriver) -> None:
    play(driver, "p1", result("r1", "p1", 5))
    driver.pipe("players", "p1", None)
    driver.run()
    assert driver.store("players").all() == {}


def test_products_are_a_table_of_their_own(driver: TopologyDriver) -> None:
    driver.pipe("products", "chess", {"Name": "Chess"})
    driver.pipe("products", "go", {"Name": "Go"})
    driver.run()
    driver.pipe("products", "go", None)
    driver.run()
    assert driver.store("products").all() == {"chess": {"ProductID": "chess", "Name": "Chess"}}


@pytest.mark.parametrize(
    ("topic", "key", "value"),
    [
        ("game-results", "p2", result("r", "p1", 5)),
        ("game-results", "p1", result("r", "p1", -1)),
        ("game-results", "p1", None),
        ("players", "p1", {"Nick": "x"}),
        ("products", b"\xff", {"Name": "x"}),
        ("players", None, {"Name": "x"}),
    ],
)
def test_poison_becomes_a_dead_letter_of_its_own_topic(
    driver: TopologyDriver, topic: str, key: Any, value: Any
) -> None:
    driver.pipe(topic, key, value)
    driver.run()
    assert len(driver.output(f"{topic}-dlq")) == 1
    assert driver.store("players").all() == driver.store("products").all() == {}


def test_the_board_on_either_engine(thorough_driver: MakeDriver) -> None:
    driver = thorough_driver(LEADERBOARD)
    chance = random.Random(3)
    results = [result(f"r{n}", f"p{chance.randrange(40)}", chance.randrange(10_000)) for n in range(400)]
    best: dict[str, int] = {}
    for value in results:
        best[value["PlayerID"]] = max(best.get(value["PlayerID"], 0), value["Score"])
    half = len(results) // 2
    play_all(driver, results[:half])
    driver.run()
    play_all(driver, results[half:] + results[half : half + 20])
    driver.run(Crash.after("state write"))
    driver.run()
    assert driver.store("players").top(10) == sorted(best.items(), key=lambda row: (-row[1], row[0]))[:10]
    assert sum(row["GamesPlayed"] for row in driver.store("players").all().values()) == len(results)


def play_all(driver: TopologyDriver, results: list[dict[str, Any]]) -> None:
    for value in results:
        driver.pipe("game-results", value["PlayerID"], value)
