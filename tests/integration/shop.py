"""A platform that runs a join and two aggregates of 10,000 keys alone, what its operator does, and an oracle."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx2
from confluent_kafka.admin import AdminClient

from harness.topics import write_topic
from storekeeper.client.client import StateClient
from storekeeper.errors import StateError
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.supervisor import stop_everything
from storekeeper.ops.waiting import eventually
from tests.integration import spending_app
from tests.integration.platform_process import PlatformProcess
from tests.integration.spending_app import CUSTOMERS, ORDERS, oracle

APP, SPENT_CHANGELOG = "spending", "spending-spent-changelog"
SECONDS = 180
"""How long an app or a node may take on a busy machine."""

CODE = Path(spending_app.__file__).read_text()
Records = list[tuple[bytes, bytes]]

KEYS = 10_000
BOUGHT_BY: Records = [
    (b"c%d" % number, b'{"region": "r%d", "factor": %d}' % (number % 7, 1 + number % 3)) for number in range(KEYS)
]
FIRST: Records = [(b"c%d" % (number * 7919 % KEYS), b'{"amount": %d}' % (number % 101)) for number in range(2 * KEYS)]
LATER: Records = [(b"c%d" % (number * 7907 % KEYS), b'{"amount": %d}' % (number % 97)) for number in range(KEYS)]


class Shop:
    """The platform in the folder `run` of a project folder. `stores` are those that are compared with the oracle."""

    def __init__(self, process: PlatformProcess, stores: Sequence[str] = ("spent", "regions")) -> None:
        self.process = process
        self.stores = stores
        self.run_dir = process.run_dir
        self.layout = RunLayout(process.run_dir)

    @property
    def kafka(self) -> str:
        environment = self.process.environment
        own = f"127.0.0.1:{environment['STOREKEEPER_KAFKA_PORT']}"
        return environment.get("STOREKEEPER_KAFKA_BOOTSTRAP", own)

    @property
    def nodes(self) -> list[str]:
        first = int(self.process.environment["STOREKEEPER_NODE_PORT"])
        return [f"http://127.0.0.1:{port}" for port in (first, first + 1)]

    @property
    def airflow(self) -> str:
        return f"http://127.0.0.1:{self.process.environment['STOREKEEPER_AIRFLOW_PORT']}"

    def client(self) -> StateClient:
        return StateClient(self.nodes)

    def up(self, *options: str, code: int = 0) -> str:
        """Runs `up`, which must end with `code`, and returns what it says about troubles."""
        done = self.process.call("up", *options, timeout_s=1000)
        assert done.returncode == code, done.stderr
        return done.stderr

    def trouble(self, *options: str, name: str = APP) -> str:
        """What `up` says first about a process that doesn't work, while others do."""
        return next(line for line in self.up(*options, code=4).splitlines() if line.startswith(f"{name}:"))

    def down(self) -> None:
        assert self.process.call("down").returncode == 0

    def output(self, *arguments: str, code: int = 0) -> str:
        """What a command that ends with `code` says."""
        done = self.process.call(*arguments, timeout_s=900)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def configure(self, generation: int) -> None:
        """What a person writes into the configuration file."""
        (self.run_dir.parent / "storekeeper.toml").write_text(f"generation = {generation}\n")

    def write(self, topic: str, records: Records) -> None:
        write_topic(self.kafka, topic, records)

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.kafka})

    def topics(self) -> set[str]:
        return {*self.admin().list_topics(timeout=30).topics}

    def delete_topic(self, topic: str) -> None:
        admin = self.admin()  # kept: its futures end with it
        (gone,) = admin.delete_topics([topic]).values()
        gone.result(timeout=30)

    def status_of(self, node: str) -> str:
        """The word of a node about itself."""
        said = httpx2.get(f"{node}/readyz", trust_env=False, timeout=10).json()["status"]
        assert isinstance(said, str)
        return said

    def code_of(self, store: str, key: str) -> int:
        """The status of the answer of the first node to a read."""
        return httpx2.get(f"{self.nodes[0]}/state/keyvalue/{store}/{key}", trust_env=False, timeout=10).status_code

    def differences(self, orders: Records, *stores: str, partial: bool = False) -> list[str]:
        """The rows that aren't as the oracle has them, `store/key`, of some stores or of all.

        With `partial` also of a store whose changelog is lost.
        """
        found = []
        with self.client() as client:
            wanted_rows = oracle(BOUGHT_BY, orders)
            for store in stores or self.stores:
                wanted = wanted_rows[store]
                rows = {
                    _text(row.key): row.value for row in client.key_value(store).all(page_rows=1000, partial=partial)
                }
                found += [f"{store}/{key}" for key in wanted.keys() | rows.keys() if wanted.get(key) != rows.get(key)]
        return found

    def tells_nothing_wrong(self, orders: Records) -> bool:
        """Whether nodes answer as the oracle, or say that they can't: after a restart they can't prove lost rows."""
        try:
            return self.differences(orders) == []
        except StateError:
            return {*self.answers(orders)} <= {"right", "503"}

    def answers(self, orders: Records) -> list[str]:
        """What the first node answers to reads of a hundred keys of all partitions: `right`, `wrong` or a status."""
        wanted, found = oracle(BOUGHT_BY, orders)["spent"], []
        for key in (f"c{number}" for number in range(100)):
            answer = httpx2.get(f"{self.nodes[0]}/state/keyvalue/spent/{key}", trust_env=False, timeout=10)
            is_right = answer.status_code == 200 and answer.json()["value"] == wanted.get(key)
            found.append("right" if is_right else "wrong" if answer.status_code == 200 else str(answer.status_code))
        return found

    def equals(self, orders: Records) -> bool:
        """Whether all rows are as the oracle has them, within the time that an app may take."""

        def same() -> bool:
            try:
                return self.differences(orders) == []
            except StateError:
                return False

        return eventually(same, SECONDS, poll_s=1)

    def table_differences(self, orders: Records) -> list[str]:
        """The same of the table of the last snapshot of what each customer has spent."""
        asked = 'SELECT decode("_key") AS key, orders, total FROM spent'
        answer = [json.loads(line) for line in self.output("sql", "--output", "json", asked).splitlines()]
        wanted = oracle(BOUGHT_BY, orders)["spent"]
        rows = {row["key"]: {"orders": row["orders"], "total": row["total"]} for row in answer}
        return [key for key in wanted.keys() | rows.keys() if wanted.get(key) != rows.get(key)]

    def fill(self) -> None:
        """Has the app take the first orders."""

        def customers_are_there() -> bool:
            with self.client() as client:
                table = client.key_value("customers")
                try:
                    return all(table.get(key.decode()).value is not None for key, _ in BOUGHT_BY[::50])
                except StateError:
                    return False

        self.write(CUSTOMERS, BOUGHT_BY)
        assert eventually(customers_are_there, SECONDS)
        self.write(ORDERS, FIRST)
        assert self.equals(FIRST)


def _text(key: str | bytes) -> str:
    return key if isinstance(key, str) else key.decode()


@contextmanager
def shop_in(folder: Path, code: str = CODE, **settings: str) -> Iterator[Shop]:
    """A platform that is up, and whose app has taken the first orders. It is stopped at the end."""
    (folder / "spending_app.py").write_text(code)
    (folder / "storekeeper.toml").write_text("")
    own = {"apps": "spending_app:SPENDING", "project_dir": str(folder)}
    stores = [store for store in ("spent", "regions") if f'store=Store("{store}"' in code]
    shop = Shop(PlatformProcess.in_folder(folder / "run", **own | settings), stores)
    try:
        shop.up()
        shop.fill()
        yield shop
    finally:
        stop_everything(shop.layout)
