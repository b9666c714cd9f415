r"""PostgreSQL's catalog questions, brought to the analyst's own instance: what DuckDB has not, in its words.

Clients send them by themselves (psql's ``\d``, drivers, BI tools). They are read in PostgreSQL's dialect and printed
in DuckDB's, over the schema ``pgc`` (``sql/pg_catalog.sql``). What is printed runs where no private row is,
like all that an analyst sends; a question of private rows never comes here.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from duckdp.catalog.table import Table, describe_column, describe_table
from duckdp.compiler.printing import quote
from duckdp.front.front import stub_sql
from duckdp.resources import read_sql
from duckdp.texts import sql_text

#: Views of PostgreSQL's information_schema that DuckDB's has not.
_SCHEMA = (
    *("routines", "parameters", "table_privileges", "role_table_grants", "sequences", "triggers", "domains"),
    *("enabled_roles", "applicable_roles"),
)
_ASKED = re.compile(
    r"\bpg_[a-z]+|\bto_reg[a-z]+\s*\(|::\s*\"?(?:reg|name\b|oid\b|char\b)|\bset_config\s*\(|\bcurrent_setting\s*\(|"
    rf"\b(?:current|session)_user\b|\b(?:quote_ident|quote_literal|quote_nullable|parse_ident)\s*\(|\binformation_schema\s*\.\s*(?:{'|'.join(_SCHEMA)})\b",
    re.IGNORECASE,
)
_OIDS = {"regclass": "known_oid", "regproc": "to_regproc", "regtype": "to_regtype", "regnamespace": "to_regnamespace"}
_PLAIN_LIST = re.compile(r"\{[^{}\\]*\}")  # PostgreSQL's spelling of a list of plain words
_TEXTS = {"text", "name", "char", "bpchar", "varchar", "cstring", "aclitem", "information_schema.sql_identifier"}
_NUMBERS = {"oid", "xid", "cid", "int4", "int8", "int2"}


def install(con: duckdb.DuckDBPyConnection, person: str) -> None:
    """Make the schema ``pgc``; ``person``: who is spoken for."""
    con.execute("CREATE SCHEMA IF NOT EXISTS pgc")
    con.execute(f"CREATE MACRO pgc.person() AS {sql_text(person)}")
    con.execute(read_sql("pg_catalog.sql"))


def stub_statements(table: Table) -> list[str]:
    """What shows a protected table to clients: its columns, and in comments all that is public of it."""
    name = quote(table.name)
    first, *rest = describe_table(table).splitlines()[1:]
    kind = "protected" if table.public is None else "public"
    told = f"{kind}: {first.strip()}" + "".join(f"; {line.strip()}" for line in rest[:1])
    comments = [f"COMMENT ON VIEW {name} IS {sql_text(told)}"]
    for column in table.columns:
        comments.append(f"COMMENT ON COLUMN {name}.{quote(column.name)} IS {sql_text(describe_column(column))}")
    return [stub_sql(table, replace=True), *comments]


def is_catalog_question(text: str) -> bool:
    """Whether a statement may want what PostgreSQL has and DuckDB has not."""
    return _ASKED.search(text) is not None


@lru_cache(maxsize=512)
def rewritten(text: str) -> str:
    """The same question over ``pgc``; of a text that cannot be read names alone are changed, and DuckDB reads it."""
    text = _OID_LISTS.sub("::bigint[]", text)
    try:
        tree = sqlglot.parse_one(text, read="postgres")
        for shown in tree.selects if isinstance(tree, exp.Select) else ():
            if _is_receiver(shown):
                shown.replace(exp.alias_(_named(shown), "typreceive"))
        return _placed(tree.transform(_change).sql("duckdb"))
    except (SqlglotError, RecursionError, AttributeError, TypeError, ValueError, KeyError, IndexError):
        return _placed(_NAMED.sub(lambda found: found[1] or (f"pgc.{found[2]}" if found[2] else ""), text))


#: Texts and names in quotes; relations of PostgreSQL's catalog; its schema before anything else.
_NAMED = re.compile(
    r"""('(?:[^']|'')*'|"(?:[^"]|"")*")"""
    r"|(?<![\w.])(?:pg_catalog\s*\.\s*)?(pg_[a-z_]+)\b(?!\s*[(.])|(?<![\w.])pg_catalog\s*\.\s*",
    re.IGNORECASE,
)


_OID_LISTS = re.compile(r"::\s*(?:pg_catalog\s*\.\s*)?oid\s*\[\]", re.IGNORECASE)  # which sqlglot takes for an index


@cache
def _functions() -> re.Pattern[str]:
    names = "|".join(sorted(set(re.findall(r"CREATE MACRO pgc\.(\w+)", read_sql("pg_catalog.sql")))))
    return re.compile(rf"('(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")|(?<![\w.])((?:{names})\()", re.IGNORECASE)


def _placed(text: str) -> str:
    """Functions that ``pgc`` has are called there; what is quoted stays as it is."""
    return _functions().sub(lambda found: found[1] or f"pgc.{found[2]}", text)


def _change(node: exp.Expression) -> exp.Expression:
    match node:
        case exp.Table() if isinstance(node.this, exp.Func) and node.alias and not node.alias_column_names:
            return _function_as_table(node)
        case exp.Table() if node.name.startswith("pg_") and node.db.lower() in ("", "pg_catalog"):
            node.set("db", exp.to_identifier("pgc"))
            node.set("catalog", None)
        case exp.Table() if node.db.lower() == "information_schema" and node.name.lower() in _SCHEMA:
            node.set("db", exp.to_identifier("pgc"))
        case exp.Table() if node.db.lower() == "pg_catalog":
            node.set("db", None)
        case exp.Column() if node.db.lower() == "pg_catalog":
            node.set("db", None)
        case exp.CurrentUser() | exp.SessionUser():
            return exp.Anonymous(this="pgc.person")
        case exp.Column() if node.name.lower() == "user" and not node.table and not node.this.quoted:
            return exp.Anonymous(this="pgc.person")
        case exp.Anonymous() if node.name.lower() == "json_build_object":
            return exp.Anonymous(this="json_object", expressions=[_changed(e) for e in node.expressions])
        case exp.Dot() if _is_catalog(node.this):
            return _changed(node.expression)
        case exp.Collate():
            return _changed(node.this)
        case exp.Operator():
            return _operator(node)
        case exp.RegexpLike() | exp.RegexpILike() if not node.args.get("flag"):
            return node
        case exp.Cast():
            return _cast(node)
    return node


def _changed(node: exp.Expression) -> exp.Expression:
    """A part whose whole is made anew: nobody else goes into it."""
    found: exp.Expression = node.transform(_change)
    return found


def _function_as_table(node: exp.Table) -> exp.Expression:
    """``f(...) AS x`` among the tables, whose column is x too: DuckDB names it after f, or takes no f there."""
    name = node.args["alias"].this
    if node.db.lower() == "pg_catalog":
        node.set("db", None)
    if isinstance(node.this, (exp.GenerateSeries, exp.ExplodingGenerateSeries)):
        node.args["alias"].set("columns", [name.copy()])
        return node
    if isinstance(node.this, exp.Anonymous):  # of PostgreSQL's own: pgc has those that are tables
        return node
    select = exp.select(exp.alias_(_changed(node.this), name.copy()))
    return select.subquery(alias=name.copy())


def _is_catalog(node: object) -> bool:
    return isinstance(node, (exp.Identifier, exp.Column)) and node.name.lower() in ("pg_catalog", "information_schema")


def _operator(node: exp.Operator) -> exp.Expression:
    """``OPERATOR(pg_catalog.~)``."""
    sign = str(node.args.get("operator")).rpartition(".")[2]
    left, right = _changed(node.this), _changed(node.expression)
    match sign:
        case "~" | "~*":
            return exp.RegexpLike(this=left, expression=right)
        case "!~" | "!~*":
            return exp.Not(this=exp.RegexpLike(this=left, expression=right))
        case "=":
            return exp.EQ(this=left, expression=right)
        case "<>":
            return exp.NEQ(this=left, expression=right)
    return node


def _cast(node: exp.Cast) -> exp.Expression:
    name = _type_name(node.to)
    inner = node.this
    if name.endswith("[]") and isinstance(inner, exp.Literal) and inner.is_string and _PLAIN_LIST.fullmatch(inner.name):
        items = inner.name[1:-1].split(",") if len(inner.name) > 2 else []
        base = name[:-2]
        kind = exp.DataType.build(f"{'VARCHAR' if base in _TEXTS else base}[]", dialect="postgres")
        return exp.cast(exp.Array(expressions=[exp.Literal.string(item.strip(' "')) for item in items]), kind)
    if name in _OIDS:
        inner = _changed(inner)
        if (isinstance(inner, exp.Literal) and inner.is_string) or isinstance(inner, (exp.Parameter, exp.Placeholder)):
            return exp.Anonymous(this=_OIDS[name], expressions=[inner])
        return exp.Anonymous(this="regclass_name", expressions=[inner]) if name == "regclass" else inner
    if name in _NUMBERS and isinstance(node.this, exp.Cast) and _type_name(node.this.to) in _OIDS:
        return _changed(node.this)
    if name in _TEXTS and _is_receiver(inner):
        return _named(inner)
    if name in _TEXTS:
        return exp.cast(_changed(node.this), "VARCHAR")
    if name in ("oid", "xid", "cid"):
        return exp.cast(_changed(node.this), "BIGINT")
    return node


def _is_receiver(node: object) -> bool:
    return isinstance(node, exp.Column) and node.name.lower() == "typreceive"


def _named(node: exp.Expr) -> exp.Expression:
    """How values of a type are read is a number where it is compared, and a name where it is shown (ADBC)."""
    beside = exp.column("typname", table=node.args.get("table"))
    return exp.Anonymous(this="pgc.receiver", expressions=[node.copy(), beside])


def _type_name(kind: exp.DataType) -> str:
    named = kind.args.get("kind")
    shown = named.sql() if isinstance(named, exp.Expression) else str(named) if named else kind.sql("postgres")
    return shown.lower().replace('"', "").removeprefix("pg_catalog.")
