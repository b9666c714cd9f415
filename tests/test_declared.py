"""Each dp function is declared once: what is generated from it is as it stands, and the methods are as it says."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import duckdp
from duckdp.errors import InternalError
from duckdp.functions import FUNCTIONS
from duckdp.functions.listings import Budget
from duckdp.functions.releases import NoisyCount
from duckdp.functions.spec import REQUIRED, DpFunction, Explained, dp_function
from duckdp.functions.write import generated
from duckdp.session import Session

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", generated())
def test_what_is_generated_is_as_the_declarations_say(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == generated()[name], "run python -m duckdp.functions.write"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_method_is_as_declared(name: str) -> None:
    """Names, order, defaults, and which may be given by place."""
    spec = FUNCTIONS[name]
    method = inspect.unwrap(getattr(Session, spec.method))
    found = list(inspect.signature(method).parameters.values())[1:]
    wanted = spec.of("python")
    assert [p.name for p in found] == [p.python for p in wanted]
    assert [REQUIRED if p.default is p.empty else p.default for p in found] == [p.default for p in wanted]
    assert [p.kind is p.POSITIONAL_OR_KEYWORD for p in found] == [p.placed for p in wanted]
    assert [type(p.default) for p in found if p.default is not p.empty] == [
        type(p.default) for p in wanted if p.default is not REQUIRED
    ]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_method_is_written_down(name: str) -> None:
    """With types, for people and type checkers."""
    method = inspect.unwrap(getattr(Session, FUNCTIONS[name].method))
    assert inspect.getsourcefile(method) in {inspect.getsourcefile(kind) for kind in Session.__mro__[:-1]}
    assert method.__code__.co_name == FUNCTIONS[name].method
    assert all(p.annotation is not p.empty for p in list(inspect.signature(method).parameters.values())[1:])
    assert method.__doc__


@pytest.fixture(scope="module")
def care(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection over the tables of the documentation."""
    roads = pa.table({"person": [1, 2, 3], "a": ["x", "x", "y"], "b": ["y", "z", "z"], "km": [1.0, 2.0, 3.0]})
    path = str(Path(duckdp.__file__).parent / "demo" / "data" / "rand_hie.parquet")
    with duckdp.open({"care": path, "roads": roads}, ledger=tmp_path_factory.mktemp("care") / "ledger") as curator:
        curator.protect(
            "care",
            unit_key="person",
            max_rows=5,
            max_groups=1,
            row_cap=100_000,
            expected_rows=20_000,
            bounds={"age": (0, 65), "medical_dollars": (0, 2_000)},
            domains={"sex": ["female", "male"]},
        )
        domains = {"a": ["x", "y", "z"], "b": ["x", "y", "z"]}
        curator.protect("roads", unit_key="person", max_rows=1, row_cap=10, bounds={"km": (0, 10)}, domains=domains)
        curator.budget(epsilon=100)
        curator.grant("ana", epsilon=100)
        yield curator.connect("ana")


def test_the_examples_of_the_page_work(care: duckdb.DuckDBPyConnection) -> None:
    page = (ROOT / "docs" / "sql.md").read_text()
    calls = re.findall(r"^```sql\nFROM (.*)\n```$", page, re.MULTILINE)
    assert {call.partition("(")[0] for call in calls} == {name for name, spec in FUNCTIONS.items() if spec.example}
    assert len(calls) >= 10
    for call in calls:
        assert care.execute(f"FROM {call}").fetchall(), call


def test_what_a_declaration_lacks_is_said_where_it_is_declared() -> None:
    """Not by the first analyst who calls it."""

    class Planless(DpFunction):
        """It cannot be planned."""

    class Mute(Explained):
        """It cannot be explained."""

        plan = Budget.plan

    class Costly(DpFunction):
        """It costs, and nobody can know what before."""

        plan = Budget.plan

    class Hidden(DpFunction):
        """Its explanation would be none of SQL's."""

        plan, explain = Budget.plan, NoisyCount.explain

    for made, costs in ((Planless, "nothing"), (Mute, "nothing"), (Costly, "epsilon"), (Hidden, "nothing")):
        with pytest.raises(InternalError, match="dp_unfinished"):
            dp_function("dp_unfinished", costs=costs)(made)
    assert "dp_unfinished" not in FUNCTIONS
