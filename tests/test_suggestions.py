"""What suggest prints becomes a declaration when it is filled in: in Python, as TOML, as commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

import duckdp
from duckdp.catalog.table import RawColumn, Table
from duckdp.cli import main
from duckdp.errors import CatalogError, DuckDPError, ParameterError
from duckdp.vault.engine import Engine
from duckdp.vault.suggest.schema import read_check

FORMS = ("python", "toml", "cli")
SCHEMA = """
CREATE TYPE mood AS ENUM ('sad', 'it\'\'s', 'a, "b"');
CREATE TABLE patients (id INTEGER PRIMARY KEY, born DATE, name VARCHAR);
CREATE TABLE visits (
    visit_id BIGINT PRIMARY KEY, patient INTEGER DEFAULT 0 REFERENCES patients (id),
    age INTEGER CHECK (age BETWEEN 0 AND 120), sex VARCHAR CHECK (sex IN ('F', 'M')), mood mood, cost DOUBLE,
    seen TIMESTAMP, "odd ""name""\" DECIMAL(5, 2), ill BOOLEAN, photo BLOB, CHECK (cost >= 0 AND cost < 5000),
    CHECK (age % 2 = 1 OR cost > 3)
);
CREATE TABLE labs (lab_id BIGINT, patient INTEGER, "x
y" DOUBLE, z DOUBLE CHECK (z >= 0));
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = str(tmp_path / "c.duckdb")
    with duckdb.connect(path) as con:
        con.execute(SCHEMA)
    return path


@pytest.fixture
def owner(file: str) -> Iterator[duckdp.Curator]:
    with duckdp.open(file, ledger=file + ".ledger") as curator:
        yield curator


def run(*arguments: object) -> Any:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def fill(text: str) -> str:
    """As an owner would: every commented line confirmed, every figure given."""
    out = []
    for line in text.splitlines():
        line = re.sub(r"^(\s*)# ", r"\1", line)
        note = line.rsplit("  # ", 1)[-1]
        if re.search(r"(row.cap|expected.rows)\W", line) and "..." in line:
            line = line.replace("...", "1000", 1)
        line = re.sub(r"(unit.key\s?=?\s?)\.\.\.(.*?)(\w+)\? Without", r"\g<1>\3\2\3? Without", line)
        line = re.sub(r"(unit_key\s?=\s?)(\w+)", r'\g<1>"\2"', line)
        if "max" in line and "..." in line:
            line = re.sub(
                r"(max.rows\s?=?\s?)\.\.\.", r"\g<1>3", re.sub(r"(max.groups\s?=?\s?)\.\.\.", r"\g<1>2", line)
            )
        dates = {"DATE": ("2000-01-01", "2001-01-01"), "TIMESTAMP": ("2000-01-01T00:00:00", "2001-01-01T00:00:00")}
        pair = next((p for kind, p in dates.items() if note.startswith(kind)), ("0", "9"))
        quoted = [f'"{p}"' if "-" in p else p for p in pair]
        line = line.replace("..., ...", ", ".join(quoted)).replace("...:...", f"{pair[0]}..{pair[1]}")
        line = re.sub(r"(null.units?\s?=?\s?\[?)\.\.\.", r"\g<1>-1", line)
        line = line.replace("[...]", '["u", "v"]') if "[...]" in line else re.sub(r"=\.\.\.(?=\s|$)", "=u,v", line)
        out.append(line)
    return "\n".join(out) + "\n"


@pytest.mark.parametrize("form", FORMS)
def test_what_is_suggested_is_declared_when_filled_in(form: str, file: str, tmp_path: Path) -> None:
    tables: dict[str, dict[str, Table]] = {}
    text = run("suggest", file, "--form", form, "--ledger", tmp_path / "s.ledger").output
    told = tmp_path / "told"
    told.write_text(fill(text))
    for name in ("first", "again"):
        done = run("protect", file, "--file", told, "--ledger", tmp_path / "p.ledger")
        assert done.exit_code == 0, done.output
        assert not [x for x in done.output.splitlines() if "->" in x], name
    with duckdp.open(file, ledger=str(tmp_path / "p.ledger")) as curator:
        tables[form] = dict(curator.tables)
    found = tables[form]
    assert set(found) == {"patients", "visits", "labs"}
    assert {t.unit_key for t in found.values()} == {"id", "patient"}
    assert {t.unit for t in found.values()} == {"patient"}
    visits = found["visits"]
    shown = {c.name: (c.lower, c.upper, c.domain) for c in visits.columns}
    assert shown["age"] == (0, 120, None)
    assert shown["cost"] == (0, 5000, None)
    assert shown["sex"] == (None, None, ("F", "M"))
    assert shown["mood"] == (None, None, ("sad", "it's", 'a, "b"'))
    assert set(shown) == {"visit_id", "age", "sex", "mood", "cost", "seen", 'odd "name"', "ill"}
    assert visits.null_units == (0,)
    assert (visits.row_cap, visits.expected_rows, visits.max_rows, visits.max_groups) == (1000, 1000, 3, 2)


def test_python_calls_are_python(file: str, owner: duckdp.Curator) -> None:
    exec(fill(owner.suggest()), {"curator": owner})
    assert set(owner.tables) == {"patients", "visits", "labs"}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_not_filled_in_is_said(form: str, file: str, tmp_path: Path) -> None:
    told = tmp_path / "told"
    told.write_text(run("suggest", file, "visits", "--form", form).output)
    done = run("protect", file, "--file", told)
    assert done.exit_code == 1
    assert done.stderr.startswith("P107: ")
    assert "still to be filled in" in done.stderr


def names(line: str, column: str) -> bool:
    """Whether a suggested line is that of a column."""
    return (
        re.search(rf"""("|--[a-z]+ '?){column}("|=|$| )""", line.lstrip().removeprefix("# ").split("  # ")[0])
        is not None
    )


@pytest.mark.parametrize("form", FORMS)
def test_each_column_has_one_line(form: str, owner: duckdp.Curator) -> None:
    lines = owner.suggest("visits", form=form).splitlines()
    for name in ("age", "sex", "mood", "cost", "seen", "ill", "photo", "visit_id"):
        assert len([x for x in lines if names(x, name)]) == 1, name
    for name in ("age", "sex", "mood", "cost"):  # what the schema says is to be confirmed
        [line] = [x for x in lines if names(x, name)]
        assert line.lstrip().startswith("# ")
        assert "confirm" in line


def test_no_row_is_read(owner: duckdp.Curator, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    real = Engine.schema_cursor

    class Spy:
        def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
            self.cursor = cursor

        def execute(self, sql: str, *rest: Any) -> Any:
            said.append(sql)
            return self.cursor.execute(sql, *rest)

    monkeypatch.setattr(Engine, "schema_cursor", lambda self: Spy(real(self)))
    for form in FORMS:
        owner.suggest(form=form)
    assert said
    read = {m for sql in said for m in re.findall(r"FROM\s+([\w.\"]+)", sql)}
    assert read <= {"duckdb_tables", "duckdb_views", "duckdb_columns", "duckdb_constraints"}


def test_the_shared_key_is_proposed(owner: duckdp.Curator) -> None:
    assert 'unit_key="patient",  # shared with' in owner.suggest("visits")
    assert "foreign keys of visits" in owner.suggest("labs")
    assert "id" in owner.suggest("patients")


def suggestion(tmp_path: Path, schema: str, table: str | None = None) -> str:
    with duckdb.connect(str(tmp_path / "one.duckdb")) as con:
        con.execute(schema)
    with duckdp.open(str(tmp_path / "one.duckdb")) as curator:
        return curator.suggest(table)


def test_people_go_before_what_more_tables_share(tmp_path: Path) -> None:
    text = suggestion(
        tmp_path,
        "CREATE TABLE a (visit_id INT, user_id INT); CREATE TABLE b (visit_id INT, user_id INT); "
        "CREATE TABLE c (visit_id INT)",
    )
    assert text.count('    unit_key="user_id"') == 2
    assert "low confidence" in text
    assert '## "c": no user_id here, the key that a, b share' in text


LINKED = """
CREATE TABLE visits (
    visit_id INTEGER PRIMARY KEY, patient_id INTEGER, ward_id INTEGER, cost DOUBLE, email VARCHAR, "homeAddress" VARCHAR
);
CREATE TABLE labs (lab_id INTEGER PRIMARY KEY, visit_id INTEGER, level DOUBLE, comment VARCHAR, kind VARCHAR);
CREATE TABLE doses (lab_id INTEGER, amount DOUBLE);
CREATE TABLE wards (ward_id INTEGER PRIMARY KEY, name VARCHAR);
CREATE TABLE apart (z INTEGER);
"""


@pytest.mark.parametrize("form", FORMS)
def test_links_and_public_tables_are_proposed(form: str, tmp_path: Path) -> None:
    """A key of a table that has the unit is a link, in a chain too; a table of codes is asked about; each works."""
    path = str(tmp_path / "linked.duckdb")
    with duckdb.connect(path) as con:
        con.execute(LINKED)
        con.execute("INSERT INTO visits SELECT i, i % 9, i % 3, i, 'm' || i, 'a' FROM range(60) t(i)")
        con.execute("INSERT INTO labs SELECT i, i % 60, i % 5, 'c' || i, 'u' FROM range(90) t(i)")
        con.execute("INSERT INTO doses SELECT i % 90, 1 FROM range(100) t(i)")
        con.execute("INSERT INTO wards SELECT i, 'w' || i FROM range(3) t(i)")
    text = run("suggest", path, "--form", form, "--ledger", tmp_path / "s.ledger").output
    assert "visit_id -> visits.visit_id" in text
    assert "lab_id -> labs.lab_id" in text
    [wards] = [line for line in text.splitlines() if line.startswith('## "wards"')]
    assert "is it no one's" in wards
    assert 'curator.publish("wards") (duckdp publish)' in wards
    [apart] = [line for line in text.splitlines() if line.startswith('## "apart"')]
    assert "publish" not in apart
    assert "link" not in apart
    for secret in ("email", "homeAddress", "comment"):  # a list of values is never asked for
        [line] = [x for x in text.splitlines() if names(x, secret)]
        assert line.lstrip().startswith("# ")
        assert "domain" not in line
    told = tmp_path / "told"
    told.write_text(fill(text))
    done = run("protect", path, "--file", told, "--ledger", tmp_path / "p.ledger")
    assert done.exit_code == 0, done.output
    with duckdp.open(path, ledger=str(tmp_path / "p.ledger")) as curator:
        units = {n: t.unit_key for n, t in curator.tables.items()}
        assert units == dict.fromkeys(("visits", "labs", "doses"), "patient_id")
        curator.publish("wards")
        curator.budget(epsilon=100)
        curator.grant("ana", epsilon=100)
        labs, wards = (
            "labs l JOIN visits v ON l.visit_id = v.visit_id",
            "visits v JOIN wards w ON v.ward_id = w.ward_id",
        )
        for joined in (labs, wards):
            assert curator.session("ana").sql(f"SELECT count(*) AS n FROM {joined}", epsilon=9).rows()


def test_a_link_that_the_schema_does_not_prove_is_a_question(tmp_path: Path) -> None:
    """Without a key that is unique, as in Parquet, the names alone say which table's rows a column names."""
    text = suggestion(
        tmp_path,
        "CREATE TABLE visits (visit_id INT, patient_id INT, ward_id INT); CREATE TABLE labs (visit_id INT, z INT); "
        "CREATE TABLE wards (ward_id INT, name VARCHAR); CREATE TABLE others (id INT, visit_id BIGINT)",
    )
    asked = {m[1]: m[0] for m in re.finditer(r'## "(\w+)".*', text)}
    assert set(asked) == {"labs", "wards", "others"}
    assert 'link="visit_id -> visits.visit_id" if each visit_id stands once in visits' in asked["labs"]
    assert "no one's" not in asked["labs"]
    assert "joins by ward_id are free" in asked["wards"]
    assert "link=" not in asked["wards"]
    assert "link=" not in asked["others"] and "no one's" not in asked["others"]  # another type, and a word for any key
    assert '# unique=["visit_id"],  # if no visit_id stands twice' in text
    assert "patient_id? Without this" in text  # of one table, and of people: before a key that tables share


@pytest.mark.parametrize(
    ("name", "free"),
    [
        *((name, True) for name in ("email", "e_mail", "lastName", "street_names", "user_id")),
        *((name, False) for name in ("sex", "kind", "nation", "texture")),
    ],
)
def test_free_texts_are_told_by_their_names(name: str, free: bool, tmp_path: Path) -> None:
    text = suggestion(tmp_path, f"CREATE TABLE t (x INT, w INT, person_no INT, {name} VARCHAR, patient_key VARCHAR)")
    [line] = [x for x in text.splitlines() if f'"{name}"' in x]
    assert ("[...]" in line) != free


def test_a_lone_key_is_a_guess(tmp_path: Path) -> None:
    text = suggestion(tmp_path, "CREATE TABLE a (person_no INT, x INT)")
    assert "\n    unit_key=...,  # person_no? Without this and max_rows each row is a person." in text
    assert "low confidence" in text
    assert '"person_no":' not in text  # a key is no column of queries
    with duckdp.open(str(tmp_path / "one.duckdb")) as curator, pytest.raises(ParameterError, match="unit_key"):
        curator.protect("a", row_cap=9, unit_key=...)  # type: ignore[arg-type]


def test_keys_of_two_types_are_not_shared(tmp_path: Path) -> None:
    text = suggestion(tmp_path, "CREATE TABLE a (user_id INT); CREATE TABLE b (user_id BIGINT)")
    assert '\n    unit_key="' not in text


def test_names_stay_within_their_line(tmp_path: Path) -> None:
    evil = 'x\nimport os\n"'
    quoted = '"' + evil.replace('"', '""') + '"'
    schema = f"CREATE TABLE t ({quoted} INT CHECK ({quoted} % 2 = 1), y VARCHAR CHECK (y <> '\nimport os\n'), b BLOB)"
    for form in FORMS:
        with duckdb.connect(str(tmp_path / f"{form}.duckdb")) as con:
            con.execute(schema)
        with duckdp.open(str(tmp_path / f"{form}.duckdb")) as curator:
            text = curator.suggest(form=form)
        assert not [line for line in text.splitlines() if line.startswith("import")]


@pytest.mark.parametrize(
    ("text", "bounds", "values"),
    [
        ("((x >= 0) AND (x <= 5))", (0, 5), None),
        ("(x BETWEEN -3 AND 7)", (-3, 7), None),
        ("((0 < x) AND (9 > x))", (1, 8), None),
        ("(x IN (1, 2))", None, (1, 2)),
        ("(x > 3)", None, None),
        ("((x > 3) OR (x < 1))", None, None),
        ("((x >= 0) AND (x <= f(2)))", None, None),
        ("((x >= 0) AND (x <= 'a'))", None, None),
        ("nonsense(((", None, None),
    ],
)
def test_checks_are_read_as_far_as_they_are_plain(text: str, bounds: object, values: object) -> None:
    found = read_check(text, RawColumn(name="x", type="INTEGER", nullable=True))
    assert (found.bounds, found.values) == (bounds, values)


def test_forms_and_tables_that_are_not(owner: duckdp.Curator) -> None:
    with pytest.raises(ParameterError):
        owner.suggest(form="yaml")
    with pytest.raises(CatalogError, match='Did you mean "visits"'):
        owner.suggest("visit")


# ---- many columns at once -------------------------------------------------------------------------------------------


@pytest.fixture
def wide(tmp_path: Path) -> Iterator[duckdp.Curator]:
    with duckdb.connect(str(tmp_path / "w.duckdb")) as con:
        con.execute(
            "CREATE TABLE a (who INT, lab_a INT, lab_b DOUBLE, d DATE, s VARCHAR, s2 VARCHAR, f BOOLEAN, "
            "z DECIMAL(4,1)); "
            "CREATE TABLE b (who INT, lab_a INT, lab_b INT, s VARCHAR, new INT)"
        )
    with duckdp.open(str(tmp_path / "w.duckdb")) as curator:
        yield curator


KEY: dict[str, Any] = {"row_cap": 10, "unit_key": "who", "max_rows": 2}


def figures(table: Table) -> dict[str, Any]:
    return {c.name: (c.lower, c.upper) if c.lower is not None else c.domain for c in table.columns}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"bounds": {"lab_*": (0, 9)}}, {"lab_a": (0, 9), "lab_b": (0, 9)}),
        ({"bounds": {"*::DOUBLE": (0, 1)}}, {"lab_b": (0, 1)}),
        ({"bounds": {"lab_?::int": (0, 1)}}, {"lab_a": (0, 1)}),
        ({"bounds": {"*": (0, 1)}}, {"lab_a": (0, 1), "lab_b": (0, 1), "z": (0, 1)}),
        ({"bounds": {"*::DECIMAL": (0, 1)}}, {"z": (0, 1)}),
        ({"bounds": {"*": (0, 1), "lab_a": (3, 4)}}, {"lab_a": (3, 4), "lab_b": (0, 1), "z": (0, 1)}),
        ({"domains": {"*": ["a", "b"]}}, {"s": ("a", "b"), "s2": ("a", "b")}),
        ({"columns": ["s*"]}, {"s": None, "s2": None}),
    ],
)
def test_patterns_name_the_columns_they_fit(
    wide: duckdp.Curator, given: dict[str, Any], wanted: dict[str, Any]
) -> None:
    assert figures(wide.protect("a", **KEY, **given)) == wanted


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"bounds": {"q*": (0, 1)}}, "C102"),
        ({"bounds": {"*::BLOB": (0, 1)}}, "C102"),
        ({"bounds": {3: (0, 1)}}, "P107"),
        ({"bounds": {"lab_*": (0, 1), "*_a": (0, 2)}}, "C105"),
        ({"bounds": [("x", 1)]}, "P107"),
        ({"columns": "s"}, "P107"),
        ({"bounds": {"*": (0, ...)}}, "P107"),
        ({"like": "nothing"}, "C101"),
    ],
)
def test_patterns_that_say_nothing_are_refused(wide: duckdp.Curator, given: dict[str, Any], code: str) -> None:
    with pytest.raises(DuckDPError) as caught:
        wide.protect("a", **KEY, **given)
    assert caught.value.code == code


def test_columns_like_those_of_a_declared_table(wide: duckdp.Curator) -> None:
    wide.protect("a", **KEY, bounds={"lab_*": (0, 9)}, domains={"s": ["p", "q"]}, other={"s": "rest"})
    b = wide.protect("b", **KEY, like="a", bounds={"new": (1, 2)})
    assert figures(b) == {"new": (1, 2), "lab_a": (0, 9), "s": ("p", "q")}  # lab_b has another type
    assert b.column("s").other == "rest"  # type: ignore[union-attr]


# ---- change what is named -------------------------------------------------------------------------------------------


def lines(call: Callable[[], Any]) -> tuple[str, ...]:
    return tuple(call().changes)


def test_amend_changes_what_is_named_only(wide: duckdp.Curator) -> None:
    before = wide.protect(
        "a",
        **KEY,
        bounds={"lab_a": (0, 9), "d": ("2000-01-01", "2001-01-01")},
        domains={"s": ["p", "q"]},
        columns=["f"],
        nulls={"s": "p"},
        other={"s": "rest"},
        null_units=[0],
        expected_rows=5,
        unit="patient",
    )
    done = wide.amend("a")
    assert done.changes == ()
    assert done.table == before
    assert done.table.declaration == before.declaration
    assert lines(lambda: wide.amend("a", bounds={"lab_a": (0, 12)}, reason="older")) == (
        "bounds[lab_a]: (0, 9) -> (0, 12)",
    )
    assert lines(lambda: wide.amend("a", domains={"s": ["p", "r"]})) == ("domains[s]: + (r) - (q)",)
    assert lines(lambda: wide.amend("a", remove=["f"])) == ("columns: - f",)
    assert lines(lambda: wide.amend("a", bounds={"lab_a": None})) == ("bounds[lab_a]: (0, 12) -> none",)
    assert lines(lambda: wide.amend("a", max_rows=3, row_cap=20)) == ("row_cap: 10 -> 20", "max_rows: 2 -> 3")
    told = [e.detail for e in wide.ledger.log() if e.kind == "table"]
    assert '"changes": ["bounds[lab_a]: (0, 9) -> (0, 12)"]' in told[-2]
    for wrong in ({"remove": ["nope"]}, {"bounds": {"nope": (0, 1)}}):
        with pytest.raises(CatalogError):
            wide.amend("a", **wrong)  # type: ignore[arg-type]
    with pytest.raises(CatalogError):
        wide.amend("b", row_cap=1)


def test_another_key_leaves_behind_what_was_said_of_the_first(wide: duckdp.Curator) -> None:
    wide.protect("a", **KEY, unit="patient", null_units=[0])
    table = wide.amend("a", unit_key="lab_a").table
    assert (table.unit_key, table.unit, table.null_units) == ("lab_a", None, ())


def test_the_command_shows_the_difference(file: str) -> None:
    assert run("protect", file, "labs", "--row-cap", 10, "--bound", "z=0:1").exit_code == 0
    done = run("protect", file, "labs", "--bound", "z=0:2", "--column", "lab_id", "--reason", "wider")
    assert "labs: bounds[z]: (0, 1) -> (0, 2)\nlabs: columns: + lab_id\n" in done.output
    assert "at most 10 rows" in done.output
    log = run("ledger", "log", file, "--format", "csv").output
    assert "bounds[z]: (0, 1) -> (0, 2); columns: + lab_id" in log
    assert run("protect", file, "labs", "--bound", "z=0:2").output.startswith("labs: protected")
    assert (
        run("protect", file, "labs", "--replace", "--bound", "z=0:2").exit_code == 2
    )  # a declaration needs its row_cap
    done = run("protect", file, "labs", "--replace", "--row-cap", 10, "--bound", "z=0:2")
    assert "labs: columns: - lab_id" in done.output
    assert "columns: - z" in run("protect", file, "labs", "--remove", "z").output
    assert run("unprotect", file, "labs", "--reason", "done").exit_code == 0
    assert "no table is protected" in run("catalog", file).output


@pytest.mark.parametrize(
    ("type_", "domain", "ok"),
    [
        ("mood", ["sad", "gone"], False),
        ("mood", ["sad"], True),
        ("mood", ["sad", None, "rest"], True),
        ("TINYINT", [300], False),
        ("TINYINT", [-128, 127], True),
        ("DECIMAL(3,1)", [12.5], True),
        ("DECIMAL(3,1)", [0.25], False),
        ("DECIMAL(3,1)", [100], False),
        ("UTINYINT", [-1], False),
        ("VARCHAR", ["anything"], True),
    ],
)
def test_a_domain_holds_what_the_type_can(type_: str, domain: list[Any], ok: bool, tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as con:
        con.execute(f"CREATE TYPE mood AS ENUM ('sad', 'it''s'); CREATE TABLE t (m {type_})")
    with duckdp.open(str(tmp_path / "d.duckdb")) as curator:
        other = {"m": "rest"} if type_ == "mood" else {}
        if ok:
            curator.protect("t", row_cap=10, domains={"m": domain}, other=other)
            return
        with pytest.raises(ParameterError) as caught:
            curator.protect("t", row_cap=10, domains={"m": domain}, other=other)
        assert caught.value.code == "P104"


@pytest.mark.parametrize("form", FORMS)
def test_a_key_of_another_name_a_key_of_one_row_and_generated_columns(form: str, tmp_path: Path) -> None:
    path = str(tmp_path / "n.duckdb")
    with duckdb.connect(path) as con:
        con.execute(
            "CREATE TABLE people (person_id INTEGER PRIMARY KEY, age INTEGER); "
            "CREATE TABLE visits (person_id INTEGER, cost DOUBLE, twice DOUBLE AS (cost * 2)); "
            "CREATE TABLE labs (pid INTEGER, z DOUBLE)"
        )
    with duckdp.open(path, ledger=path + ".ledger") as owner:
        labs = owner.suggest("labs", form=form)
        assert [x for x in labs.splitlines() if names(x, "pid") and "bound" in x] == []
        assert 'unit_key="pid", unit="person_id"' in labs
        assert 'unit_key="pid", unit="person_id"' in owner.suggest(form=form)
        owner.protect("visits", row_cap=9, unit_key="person_id", max_rows=2)
        owner.protect("labs", row_cap=9, unit_key="pid", unit="person_id", max_rows=2)  # the way out
        [generated] = [x for x in owner.suggest("visits", form=form).splitlines() if "twice" in x]
        assert generated.lstrip().startswith("#")
        assert "snapshot=True" in generated
        assert re.search(r"max.rows ?=? ?1\b", owner.suggest("people", form=form))
        assert re.search(r"max.rows ?=? ?\.\.\.", owner.suggest("visits", form=form))


def test_a_column_of_listed_values_is_no_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """``customer_type`` of four values, ``is_guest``, ``passenger_weight``: named like people, and none of them one."""
    with duckdb.connect(str(tmp_path / "o.duckdb")) as con:
        con.execute("CREATE TABLE t (customer_type VARCHAR, is_guest BOOLEAN, passenger_weight DOUBLE, guest VARCHAR)")
    told = {"row_cap": 9, "domains": {"customer_type": ["a", "b"]}, "bounds": {"passenger_weight": (0, 9)}}
    with duckdp.open(str(tmp_path / "o.duckdb")) as owner:
        owner.protect("t", columns=["is_guest"], **told)
        assert not caplog.records
        owner.protect("t", columns=["is_guest", "guest"], **told)  # the twin
        assert '"guest" looks like a key' in caplog.records[0].message


def test_what_an_owner_may_not_have_meant_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Rows taken for persons, and what a second call of protect no longer names; by the command line too."""
    with duckdb.connect(str(tmp_path / "o.duckdb")) as con:
        con.execute("CREATE TABLE orders (customer_id INT, amount INT, city VARCHAR)")
    with duckdp.open(str(tmp_path / "o.duckdb")) as owner:
        bounds = {"amount": (0, 9), "customer_id": (0, 9)}
        owner.protect("orders", row_cap=9, bounds=bounds, columns=["city"])
        assert [r.message for r in caplog.records] == [
            'orders: each row is protected as a person of its own; "customer_id" looks like a key: '
            "unit_key= protects all rows of one"
        ]
        caplog.clear()
        owner.protect("orders", row_cap=9, unit_key="customer_id", max_rows=2, bounds={"amount": (0, 9)})
        assert [r.message for r in caplog.records] == [
            "orders: no longer declared: bounds[customer_id], customer_id, city"
        ]
        caplog.clear()
        owner.protect("orders", row_cap=9, unit_key="customer_id", max_rows=2, bounds={"amount": (0, 9)})
        owner.protect("orders", row_cap=8, unit_key="customer_id", max_rows=2, bounds={"amount": (0, 9)})
        owner.budget(epsilon=25, delta=1e-6)
        owner.budget(epsilon=25, delta=1e-6)
        assert not caplog.records
        owner.budget(epsilon=5, delta=1e-6)
        assert [r.message for r in caplog.records] == [
            "the total is lowered from epsilon=25, delta=1e-6 to epsilon=5, delta=1e-6; raising it again needs "
            "raise_to and a reason"
        ]
    with duckdb.connect(str(tmp_path / "p.duckdb")) as con:
        con.execute("CREATE TABLE orders (customer_id INT)")
    told = run("protect", tmp_path / "p.duckdb", "orders", "--row-cap", 9, "--bound", "customer_id=0:9").output
    assert "looks like a key: unit_key= protects all rows of one" in told
