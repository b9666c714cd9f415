"""One analyst's statements: those over protected tables go through the gate, all others to the analyst's own DuckDB."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import duckdb
from sqlglot import exp

from duckdp.client.problems import Error
from duckdp.compiler.parse import names_tables, parse_statement
from duckdp.core.types import parse_delta, parse_epsilon
from duckdp.errors import DuckDPError, QueryError
from duckdp.result import MOST_SHOWN, Result, plain_result

if TYPE_CHECKING:
    from duckdp.curator import Curator

_CODED = re.compile(r"\b([PCQBENX]\d{3}: .*)", re.DOTALL)
_PLACE = re.compile(r"\n\s*\nLINE \d+:.*", re.DOTALL)
_EXPLAIN = re.compile(r"\s*EXPLAIN\s+(?=SELECT|WITH|FROM|\()", re.IGNORECASE)
# What keeps a private answer as a table of the analyst's: its SELECT is asked by dp_query.
_NAME = r'(?:"[^"]+"|\w+)'
_KEEP = re.compile(
    rf"\s*(?:CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMP(?:ORARY)?\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}\s+AS"
    rf"|INSERT\s+INTO\s+{_NAME}(?:\s*\([^)]*\))?)\s+(?=SELECT|WITH|FROM)",
    re.IGNORECASE,
)
_TAG = "$dp$"
QUIET = 3.0  # seconds between words about progress


def explain_error(error: DuckDPError | duckdb.Error | Error) -> str:
    """An error with its code: ours, also when DuckDB carried it, or Q105 and what DuckDB says.

    On the analyst's own instance there is no private row, so DuckDB's own words are harmless there.
    """
    if isinstance(error, Error):
        return str(error) if error.code else f"Q105: {error}"
    if isinstance(error, DuckDPError) and error.code != "Q105":
        return str(error)
    if isinstance(error, duckdb.InterruptException):
        return "E102: interrupted; a charge that was made stays, and asking the same again (not fresh) costs nothing"
    text = error.message if isinstance(error, DuckDPError) else str(error)
    coded = _CODED.search(text)
    return _PLACE.sub("", coded[1]).strip() if coded else f"Q105: {text.strip()}"


class Analyst:
    """Runs one analyst's statements, one after the other.

    Args:
        curator: whose data.
        name: of the analyst.
        tell: says something to the person at the prompt.
    """

    def __init__(self, curator: Curator, name: str, *, tell: Callable[[str], None]) -> None:
        self.session = curator.session(name)
        self.cursor = curator.connect(name)
        self.name = name
        self.delta = "0"
        self._tell = tell
        self._told = 0.0
        curator.on_progress = self._progress

    # ---- what statements cost -----------------------------------------------------------------------------------

    @property
    def epsilon(self) -> str | None:
        """What a statement costs unless it says otherwise: the variable dp_epsilon."""
        row = self.cursor.execute("SELECT getvariable('dp_epsilon')::VARCHAR").fetchone()
        return None if row is None or row[0] is None else str(row[0])

    def set_epsilon(self, text: str) -> None:
        """Set what a statement costs.

        Raises:
            ParameterError: P101.
        """
        parse_epsilon(text)
        self.cursor.execute("SET VARIABLE dp_epsilon = $1", [text])

    def set_delta(self, text: str) -> None:
        """Set the delta of statements over protected tables.

        Raises:
            ParameterError: P102.
        """
        parse_delta(text)
        self.delta = text

    # ---- what there is ------------------------------------------------------------------------------------------

    def left(self) -> str:
        """What is left to be spent, in words."""
        return self.session.remaining_text()

    def tables(self) -> list[str]:
        """Names of the protected tables."""
        return list(self.session.tables())

    def columns(self) -> list[str]:
        """Names of the protected tables' columns."""
        return [c.name for t in self.session.tables().values() for c in t.columns]

    def own(self) -> list[str]:
        """Names of the tables and views of the analyst's instance."""
        rows = self.cursor.execute(
            "SELECT table_name FROM duckdb_tables() WHERE NOT internal UNION ALL "
            "SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY 1"
        ).fetchall()
        return [str(row[0]) for row in rows]

    def catalog(self) -> Result:
        """What is declared, a row a column, the table's name first."""
        return self.session.catalog()

    def budget(self) -> Result:
        """What was granted, was spent and is left."""
        return self.session.budget()

    def ledger(self) -> Result:
        """The analyst's own charges, oldest first."""
        return self.session.ledger()

    def summaries(self) -> Result:
        """Stored summaries and synthetic tables."""
        return self.session.summaries()

    # ---- running ------------------------------------------------------------------------------------------------

    def run(self, text: str, *, most: int | None = MOST_SHOWN) -> Result:
        """Run one statement; Ctrl-C interrupts it.

        Args:
            text: one statement.
            most: rows to fetch from the analyst's own instance; None for all.

        Raises:
            DuckDPError: refused, or failed after the charge (E1xx).
            duckdb.Error: DuckDB could not run ordinary SQL.
        """
        return self._interruptible(lambda: self._metered(text, most))

    def explain(self, text: str) -> Result:
        """Plan, cost and expected error of a statement; free."""
        found = str(self.session.explain(text, epsilon=self.epsilon, delta=self.delta))
        return plain_result(["plan"], [(line,) for line in found.splitlines()])

    def _metered(self, text: str, most: int | None) -> Result:
        """Run a statement; say what it was charged when its answer does not."""
        before = self.session.desk.count_charges()
        result = self._answer(text, most)
        if result.source:
            return result
        made = self.session.desk.own_charges(limit=self.session.desk.count_charges() - before)
        if not made:
            return result
        cost, source = " + ".join(str(c.loss) for c in made), "charge " + ", ".join(str(c.id) for c in made)
        return Result(
            columns=result.columns,
            cost=cost,
            source=source,
            remaining=self.session.remaining_text(),
            notes=result.notes,
        )

    def _answer(self, text: str, most: int | None) -> Result:
        if (found := _EXPLAIN.match(text)) is not None and self._names_protected(text[found.end() :]):
            return self.explain(text[found.end() :])
        if (found := _KEEP.match(text)) is not None and self._names_protected(text[found.end() :]):
            with self.session.asking(text) as asking:
                kept = self._kept(found[0], text[found.end() :])
                asking.leave_out()  # what it asks comes as a call of dp_query
            return self._own(kept, most)
        try:
            tree = parse_statement(text)
        except QueryError as refusal:
            if refusal.code != "Q101":
                with self.session.asking(text):
                    raise
            return self._unparsed(text, refusal, most)
        if isinstance(tree, exp.Query) and names_tables(tree) & set(self.session.tables()):
            return self.session.sql(text, epsilon=self.epsilon, delta=self.delta)
        return self._own(text, most)

    def _kept(self, head: str, body: str) -> str:
        if _TAG in body:
            raise QueryError("Q201", f"{_TAG} cannot stand in this statement.")
        epsilon = self.epsilon
        parse_epsilon(epsilon)  # P101 with our words rather than from inside DuckDB
        return f"{head} FROM dp_query({_TAG}{body}{_TAG}, epsilon := '{epsilon}', delta := '{self.delta}')"

    def _unparsed(self, text: str, refusal: QueryError, most: int | None) -> Result:
        """DuckDB may know what sqlglot does not; if it does not either, our message has the place."""
        try:
            return self._own(text, most)
        except duckdb.ParserException:
            with self.session.asking(text):
                raise refusal from None

    def _own(self, text: str, most: int | None) -> Result:
        done = self.cursor.execute(text)
        described = done.description or []
        rows = [] if not described else done.fetchall() if most is None else done.fetchmany(most + 1)
        shown = plain_result([d[0] for d in described], rows[:most], [str(d[1]) for d in described])
        if not rows and shown.names == ["Success"]:
            shown = Result(columns=[])  # SET, DROP and the like have nothing to show
        return replace(shown, notes=["there are more rows"] if most is not None and len(rows) > most else [])

    def _names_protected(self, text: str) -> bool:
        try:
            return self.session.desk.names_protected(text)
        except QueryError:
            return False

    def _progress(self, stage: str, share: float) -> None:
        """Say how far long work is, every few seconds."""
        now = time.monotonic()
        if share <= 0 or not self._told:
            self._told = now
        elif now - self._told > QUIET:
            self._told = now
            self._tell(f"{stage}: {share:.0%}; Ctrl-C keeps what was paid for")

    def _interruptible(self, work: Callable[[], Result]) -> Result:
        """Run in a thread, so that Ctrl-C reaches DuckDB at once and not after it is done."""
        done: list[Result | BaseException] = []
        finished = threading.Event()

        def target() -> None:
            try:
                done.append(work())
            except BaseException as error:  # noqa: BLE001 - carried to the waiting thread and raised there
                done.append(error)
            finally:
                finished.set()

        # An event, not join: in Python 3.11 an interrupted join takes the thread for dead.
        threading.Thread(target=target, daemon=True).start()
        asked = False
        while not finished.is_set():
            try:
                finished.wait(0.05)  # a signal may reach another thread, and does not wake this one then
            except KeyboardInterrupt:
                if not asked:
                    self._tell("interrupting; a charge that was made stays, and asking the same again redeems it")
                asked = True
            if asked:  # again and again: an interrupt between two queries stops neither
                self.session.desk.interrupt()
                self.cursor.interrupt()
        if isinstance(done[0], BaseException):
            raise done[0]
        return done[0]
