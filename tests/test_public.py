from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import storekeeper

ROOT = Path(__file__).parents[1]


NAMES = set(vars(storekeeper)["__all__"])
STUB = Path(storekeeper.__file__).with_suffix(".pyi")


def test_the_public_names_are_there_and_no_others() -> None:
    assert {name for name in NAMES if not hasattr(storekeeper, name)} == set()
    assert set(dir(storekeeper)) >= NAMES
    for name in ("Nothing", "_private"):
        assert not hasattr(storekeeper, name)


def test_a_star_imports_all_of_them() -> None:
    found: dict[str, object] = {}
    exec("from storekeeper import *", found)  # noqa: S102 (a star is allowed in a module alone)
    assert found.keys() - {"__builtins__"} == NAMES


def test_type_checkers_know_the_names_their_types_and_no_others() -> None:
    """A wrong use is marked; mypy reports a mark that is not needed."""
    with pytest.raises(ImportError, match="Nothing"):
        from storekeeper import Nothing  # type: ignore[attr-defined]  # noqa: F401
    with pytest.raises(AttributeError):
        _ = storekeeper.StateClient.nothing  # type: ignore[attr-defined]
    # Strict checkers take a name of a stub as exported only if it is imported `as` itself.
    aliases = [alias for one in ast.parse(STUB.read_text()).body for alias in getattr(one, "names", ())]
    assert [alias.name for alias in aliases if alias.name != alias.asname] == []


def test_no_room_has_the_name_of_a_public_name() -> None:
    assert NAMES & {path.stem for path in Path(storekeeper.__file__).parent.iterdir()} == set()


@pytest.mark.parametrize(
    "imported",
    ["import storekeeper", "from storekeeper import StateClient", "from storekeeper import Store, topology_app"],
)
def test_a_light_start_loads_nothing_of_an_extra(imported: str) -> None:
    heavy = {"airflow", "pyspark", "pandas", "pyarrow", "duckdb", "deltalake", "great_expectations", "fastapi", "grpc"}
    code = f"import sys; {imported}; print(sorted({heavy!r} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_every_public_function_has_a_contract() -> None:
    bare = []
    for name in sorted(NAMES):
        thing = getattr(storekeeper, name)
        if not inspect.getdoc(thing):
            bare.append(name)
        if inspect.isclass(thing):
            bare += [
                f"{name}.{method}"
                for method, function in vars(thing).items()
                if inspect.isfunction(function) and not method.startswith("_") and not inspect.getdoc(function)
            ]
    assert bare == []


@pytest.mark.parametrize(
    "imported", ["import storekeeper, storekeeper.errors", "from storekeeper import StreamsBuilder"]
)
def test_importing_the_package_loads_no_backend(imported: str) -> None:
    code = f"import sys; {imported}; print(sorted({{'rocksdict', 'redis', 'confluent_kafka'}} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_the_example_runs() -> None:
    example = ROOT / "examples" / "stores.py"
    output = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, check=True).stdout
    assert output.splitlines()[:2] == [
        "begin with card-1: [('card-1', 10), ('card-10', 3)]",
        "used last: [('card-10', 'till-0'), ('card-2', 'till-1')]",
    ]
