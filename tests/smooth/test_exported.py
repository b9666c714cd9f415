"""Files of summaries: written whole or not at all, groups included, and damaged ones refused by a code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import duckdp
from duckdp.errors import CatalogError, DuckDPError, ParameterError
from duckdp.smooth import answer, load

COLUMNS = ("x", "s")


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdp.Curator]:
    folder: Path = tmp_path_factory.mktemp("files")
    with duckdb.connect(str(folder / "t.duckdb")) as con:
        con.execute(
            "CREATE TABLE t AS SELECT (i % 100)::DOUBLE AS x, i % 5 > 0 AS flag, ['a', 'b'][1 + i % 2] AS s "
            "FROM range(5000) r(i)"
        )
    with duckdp.open(str(folder / "t.duckdb"), ledger=str(folder / "t.ledger")) as found:
        found.protect(
            "t",
            row_cap=10_000,
            bounds={"x": (0, 100)},
            domains={"s": ["a", "b"]},
            columns=["flag"],
            nulls={"x": 0, "flag": False, "s": "a"},
        )
        found.budget(epsilon=100)
        found.grant("ana", epsilon=90)
        ana = found.session("ana")
        ana.smooth_summary("t", list(COLUMNS), epsilon=10, degree=4, name="plain")
        ana.smooth_summary("t", ["x"], epsilon=10, degree=4, per="flag", name="groups")
        yield found


def test_a_failed_export_leaves_nothing_behind(owner: duckdp.Curator, tmp_path: Path) -> None:
    ana = owner.session("ana")
    calls: list[Callable[[], object]] = [
        lambda: ana.export_summary("nobody", tmp_path / "a.json"),
        lambda: ana.export_summary("groups", tmp_path / "a.json", category="maybe"),
        lambda: ana.export_summary("plain", tmp_path / "a.json", category="a"),
        lambda: ana.export_summary("plain", str(tmp_path / "a\x00.json")),
        lambda: ana.export_summary("plain", None),  # type: ignore[arg-type]
        lambda: ana.export_summary(None, tmp_path / "a.json"),  # type: ignore[arg-type]
    ]
    for call in calls:
        with pytest.raises(DuckDPError) as caught:
            call()
        assert caught.value.code in ("C110", "P107")
        assert list(tmp_path.iterdir()) == []


def test_an_export_replaces_no_file_and_leaves_no_other(owner: duckdp.Curator, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("mine")
    with pytest.raises(FileExistsError):
        owner.session("ana").export_summary("plain", tmp_path / "a.json")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.json", "mine")]


def test_groups_are_exported_together_or_one_by_one(owner: duckdp.Curator, tmp_path: Path) -> None:
    ana = owner.session("ana")
    ana.export_summary("groups", tmp_path / "all.json")
    ana.export_summary("groups", tmp_path / "yes.json", category=True)
    here = ana.smooth_answer("groups", "x", category="true").rows()[0][0]
    assert answer(load(tmp_path / "all.json", category=True), "x").value == here
    assert answer(load(tmp_path / "yes.json"), "x").value == here
    assert answer(load(tmp_path / "all.json", "false"), "x").value != here
    with pytest.raises(ParameterError, match="category"):
        load(tmp_path / "all.json")
    with pytest.raises(ParameterError, match="category"):
        load(tmp_path / "yes.json", category="true")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["all.json", "yes.json"]


def test_groups_are_named_in_sql_by_their_values(owner: duckdp.Curator) -> None:
    con = owner.connect("ana")
    values = [
        con.execute(
            f"SELECT value FROM dp_smooth_answer('groups', '1', statistic := 'sum', category := {c})"
        ).fetchone()
        for c in ("true", "TRUE", "'True'", "1 = 1", "false")
    ]
    assert len(set(values[:4])) == 1
    assert values[4] != values[0]


def columns_with(index: int, **changed: Any) -> Callable[[dict[str, Any]], None]:
    def change(raw: dict[str, Any]) -> None:
        columns = json.loads(raw["columns"])
        columns[index].update(changed)
        raw["columns"] = json.dumps(columns)

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw.update(scales=[5e-324] * len(raw["scales"])),
        columns_with(1, domain=["a", 7]),
        columns_with(1, domain=["a", True]),
        columns_with(1, domain=["a", "\ud800"]),
        columns_with(1, domain=[["a"], "b"]),
        columns_with(1, domain=["a", "a"]),
        columns_with(1, null_value={}),
        columns_with(1, other=3),
        columns_with(1, name="x"),
        columns_with(1, name="X"),
        columns_with(1, name="\ud800"),
        columns_with(0, lower=True),
        columns_with(0, lower="0"),
        columns_with(0, upper=None),
        columns_with(0, null_value="0"),
        columns_with(0, type="VARCHAR"),
        columns_with(0, integral=True),
        columns_with(0, kind="date"),
        columns_with(0, lower=100.0),
        lambda raw: raw.update(columns="[" * 100_000),
        lambda raw: raw.update(row_cap=2**2000),
        lambda raw: raw.update(moments=[2**400] * len(raw["moments"])),
    ],
)
def test_tampered_files_are_refused_when_they_are_loaded(
    change: Callable[[dict[str, Any]], None], owner: duckdp.Curator, tmp_path: Path
) -> None:
    owner.session("ana").export_summary("plain", tmp_path / "good.json")
    raw = json.loads((tmp_path / "good.json").read_text())
    change(raw)
    (tmp_path / "bad.json").write_text(json.dumps(raw))
    with pytest.raises(CatalogError) as caught:
        load(tmp_path / "bad.json")
    assert caught.value.code == "C105"


@pytest.mark.parametrize("text", ["[" * 100_000, '{"kind":' * 100_000, "", "7", "null", "\ufeff{}"])
def test_files_that_hold_no_summary_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(CatalogError) as caught:
        load(tmp_path / "bad.json")
    assert caught.value.code == "C105"


@pytest.mark.parametrize(
    ("path", "code"), [("a\x00b", "P107"), ("nowhere.json", "C108"), (None, "P107"), (0, "P107"), (b"a", "P107")]
)
def test_paths_are_checked(path: Any, code: str) -> None:
    with pytest.raises(DuckDPError) as caught:
        load(path)
    assert caught.value.code == code


def test_a_null_is_not_the_text_none(owner: duckdp.Curator) -> None:
    ana, con = owner.session("ana"), owner.connect("ana")
    for call in (
        "dp_smooth_answer('plain', NULL)",
        "dp_smooth_answer(NULL, 'x')",
        "dp_smooth_answers(NULL, ['x'])",
        "dp_smooth_answers('plain', ['x', NULL])",
        "dp_smooth_summary(NULL, ['x'], epsilon := 1, name := 'n')",
        "dp_explain_summary(NULL, ['x'], epsilon := 1)",
        "dp_noisy_count(NULL, epsilon := 1)",
        "dp_bounds('t', NULL, epsilon := 1)",
        "dp_bounds(NULL, 'x', epsilon := 1)",
        "dp_explain(NULL, epsilon := 1)",
    ):
        wanted = r"P107: \w+=?.*: must be (given|a list of texts|the (name|text) of )"
        with pytest.raises(duckdb.InvalidInputException, match=wanted):
            con.execute(f"FROM {call}")
    with pytest.raises(ParameterError, match="function=None: must be the text"):
        ana.smooth_answer("plain", None)  # type: ignore[arg-type]


def test_a_list_that_is_too_long_for_one_call_says_so(owner: duckdp.Curator) -> None:
    con = owner.connect("ana")
    listed = [f"x{' ' * 700}+ {i}" for i in range(1100)]
    with pytest.raises(duckdb.InvalidInputException, match=r"P107: .*740,000 bytes.*Split the list"):
        con.execute("FROM dp_smooth_answers('plain', $1)", [listed])
    found = con.execute("SELECT count(*) FROM dp_smooth_answers('plain', $1)", [listed[:1000]]).fetchone()
    assert found == (1000,)
