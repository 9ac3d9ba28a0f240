from __future__ import annotations

from typing import Any

import pytest

from spark_apps.leaderboard import LEADERBOARD, REMEMBERED_RESULTS, topology
from storekeeper.testkit.fixtures import MakeDriver
from tests.apps.events import past
from tests.project.spark_apps.support import AppDriver, send, values


def result(result_id: str, player: str, score: int, product: str = "chess", time_ms: int = past(0)) -> dict[str, Any]:
    return {"ResultID": result_id, "PlayerID": player, "ProductID": product, "Score": score, "PlayedTime": time_ms}


def play(driver: AppDriver, player: str, *results: dict[str, Any]) -> None:
    for value in results:
        driver.send("game-results", player, value)
    driver.run()


def tell(driver: AppDriver, topic: str, key: str, value: dict[str, Any] | None) -> None:
    driver.send(topic, key, value)
    driver.run()


@pytest.fixture
def driver() -> AppDriver:
    return AppDriver(topology)


def test_a_player_has_a_best_score_a_sum_and_a_name(driver: AppDriver) -> None:
    tell(driver, "players", "p1", {"Name": "Ada"})
    play(driver, "p1", result("r1", "p1", 30), result("r2", "p1", 50, "go"), result("r3", "p1", 10, time_ms=past(-5)))
    assert driver.values("players")["p1"] == {
        "PlayerID": "p1",
        "Name": "Ada",
        "HighScore": 50,
        "HighScoreProduct": "go",
        "GamesPlayed": 3,
        "TotalScore": 90,
        "LastPlayed": past(-5),
    }


def test_a_name_that_comes_later_is_the_name(driver: AppDriver) -> None:
    play(driver, "p1", result("r1", "p1", 30))
    assert driver.values("players")["p1"]["Name"] is None
    tell(driver, "players", "p1", {"Name": "Ada"})
    assert driver.values("players")["p1"]["Name"] == "Ada"


def test_equal_best_scores_are_told_apart_by_name_in_whatever_order(driver: AppDriver) -> None:
    play(driver, "p1", result("r1", "p1", 5, "go"), result("r2", "p1", 5, "chess"))
    play(driver, "p2", result("r1", "p2", 5, "chess"), result("r2", "p2", 5, "go"))
    rows = driver.values("players")
    assert rows["p1"]["HighScoreProduct"] == rows["p2"]["HighScoreProduct"] == "chess"


def test_a_result_that_comes_twice_counts_once(driver: AppDriver) -> None:
    play(driver, "p1", result("r1", "p1", 5), result("r1", "p1", 5))
    play(driver, "p1", result("r1", "p1", 5))
    assert driver.values("players")["p1"]["GamesPlayed"] == 1


def test_so_many_results_are_remembered(driver: AppDriver) -> None:
    play(driver, "p1", *(result(f"r{n}", "p1", 1) for n in range(REMEMBERED_RESULTS + 1)))
    play(driver, "p1", result("r1", "p1", 1))
    assert driver.values("players")["p1"]["GamesPlayed"] == REMEMBERED_RESULTS + 1
    play(driver, "p1", result("r0", "p1", 1))
    assert driver.values("players")["p1"]["GamesPlayed"] == REMEMBERED_RESULTS + 2


def test_a_player_who_has_not_played_has_no_rank(driver: AppDriver) -> None:
    tell(driver, "players", "p1", {"Name": "Ada"})
    assert driver.values("players") == {}
    play(driver, "p1", result("r1", "p1", 0))
    assert driver.values("players")["p1"]["Name"] == "Ada"


def test_a_player_who_leaves_leaves_the_board_and_is_forgotten(driver: AppDriver) -> None:
    play(driver, "p1", result("r1", "p1", 5))
    tell(driver, "players", "p1", None)
    assert driver.values("players") == driver.values("standings") == {}
    assert not driver.raw("players")


def test_products_are_a_table_of_their_own(driver: AppDriver) -> None:
    for key, value in (("chess", {"Name": "Chess"}), ("go", {"Name": "Go"}), ("go", None)):
        tell(driver, "products", key, value)
    assert driver.values("products") == {"chess": {"ProductID": "chess", "Name": "Chess"}}


def test_players_are_ranked_and_products_are_everywhere(driver: AppDriver) -> None:
    assert driver.specs["players"].options.ranked_by == "HighScore"
    assert [name for name, spec in driver.specs.items() if spec.options.everywhere] == ["products"]


@pytest.mark.parametrize(
    ("topic", "key", "value"),
    [
        ("game-results", "p2", result("r", "p1", 5)),
        ("game-results", "p1", result("r", "p1", -1)),
        ("game-results", "p1", None),
        ("players", "p1", {"Nick": "x"}),
        ("players", "p1", {"Name": None}),
        ("products", b"\xff", {"Name": "x"}),
        ("players", None, {"Name": "x"}),
    ],
)
def test_poison_becomes_a_dead_letter_of_its_own_topic(driver: AppDriver, topic: str, key: Any, value: Any) -> None:
    driver.send(topic, key, value)
    driver.run()
    assert [where for where, _ in driver.reasons()] == [topic]
    assert driver.values("players") == driver.values("products") == {}


def test_names_and_results_in_plain_python_and_on_spark(topology_driver: MakeDriver) -> None:
    driver = topology_driver(LEADERBOARD)
    for player in ("p1", "p2"):
        send(driver, "players", player, {"Name": player.upper()})
        send(driver, "game-results", player, result("r1", player, 5))
    send(driver, "products", "chess", {"Name": "Chess"})
    driver.run()
    send(driver, "game-results", "p1", result("r1", "p1", 5))
    send(driver, "game-results", "p1", result("r2", "p1", 9))
    send(driver, "players", "p2", None)
    driver.run()
    assert set(values(driver, "products")) == {"chess"}
    [(player, row)] = values(driver, "players").items()
    assert (player, row["Name"], row["GamesPlayed"], row["HighScore"]) == ("p1", "P1", 2, 9)
