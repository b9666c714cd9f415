"""What the functions of one DuckDB instance call: prepare, seal, charge once, remember. None of them ever raises.

A refusal at bind time becomes a SELECT that raises it, a refusal at run time a text that the SELECT raises; so DuckDB
shows our coded message alone. What is not one of our errors becomes one constant text.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from duckdp.compiler import ways
from duckdp.desk.desk import Desk
from duckdp.errors import CODES, CatalogError, DuckDPError, LedgerError, ParameterError, QueryError
from duckdp.front.crossing import (
    FEW_CELLS,
    Answer,
    Crossing,
    Rows,
    are_few,
    arrow_type,
    cross_plainly,
    rows_of,
    select_columns,
    select_parts,
    select_rows,
)
from duckdp.functions.calling import Lists, Texts, describe_texts, plan_texts, texts_of
from duckdp.functions.planned import Planned
from duckdp.process.forks import Home, closed
from duckdp.result import Result
from duckdp.texts import sql_text

REMEMBERED = 64  # answers kept per instance; older ones come again from the ledger, free
MOST_CELLS = 8_000_000  # cells of remembered answers, and of one chunk that leaves
MOST_TOKEN = 1_000_000  # characters of a sealed token; longer ones are not looked at
MOST_CALL = 740_000  # bytes of a call, of which a token takes four thirds and its mac
MOST_PLANNED = 8  # calls that were bound and have not run yet, of which the plan is kept


class AtOnce(NamedTuple):
    """A call that was bound and run in one.

    Attributes:
        problem: why there is no answer.
        read: whether private rows may have been read for it.
        columns: names and types.
        rows: of texts.
    """

    problem: str | None
    read: bool
    columns: list[tuple[str, str]]
    rows: Rows


class Binder:
    """The calls of one instance.

    Args:
        desk: of the one analyst this instance speaks for.
        answered: told each answer that was computed, in the thread of the call.

    Attributes:
        speaker: random name of this binder; public.
    """

    def __init__(self, desk: Desk, answered: Callable[[Result], None] = lambda _: None) -> None:
        self._desk: Desk | None = desk
        self._answered = answered
        self._home = Home()
        self.speaker = secrets.token_hex(16)
        self._key = secrets.token_bytes(32)
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._planned: OrderedDict[str, tuple[object, Planned]] = OrderedDict()
        self._lock = threading.Lock()
        self._turns: dict[str, tuple[threading.Lock, int]] = {}
        self._silent = threading.local()
        self._refusals: deque[DuckDPError] = deque(maxlen=32)

    # ---- what DuckDB calls --------------------------------------------------------------------------------------

    def bind(self, name: str | None, arguments: Texts | None, lists: Lists | None) -> str:
        """The SELECT that stands for a call; validates, reads nothing, charges nothing."""
        given = list(arguments or ()), [None if one is None else list(one) for one in lists or ()]  # NULL is no list
        found, problem = self._laundered(self._bind, str(name), *given)
        return str(found) if problem is None else f"SELECT * FROM query(system.main.error({_text(problem)}))"

    def ask(self, tokens: Any) -> Any:
        """Charge and compute each token's call, once; "" for each that has its answer, else why not."""
        import pyarrow as pa

        problems = [self._laundered(self._answer, t)[1] or "" for t in tokens.to_pylist()]
        return pa.array(problems, pa.string())

    def rows(self, token: str) -> Rows:
        """A token's answer of few cells, after a row that is empty; or one row with why there is none."""
        found, problem = self._laundered(self._rows, token)
        return [[problem]] if found is None else found

    def query(self, statement: str, terms: Mapping[str, str]) -> AtOnce | None:
        """A call of dp_query from its bind to its rows, where its answer crosses as texts; else None.

        Then it is to be bound, or it names no protected table, or is no statement, and DuckDB says what is wrong.
        """
        began: list[bool] = []
        found, problem = self._laundered(self._query, statement, terms, began)
        return found if problem is None else AtOnce(problem, bool(began), [], [])

    def fetch(self, function: str, tokens: Any, indexes: Any) -> Any:
        """One column of each token's answer. A NULL, which DuckDB refuses, where there is none by this function."""
        import pyarrow as pa

        kind = arrow_type(function)
        pairs = list(zip(tokens.to_pylist(), indexes.to_pylist(), strict=True))
        parts, _ = self._laundered(self._columns, function, pairs)
        if parts is None:
            return pa.array([None] * len(pairs), pa.list_(kind))
        ends = [0]
        for part in parts:
            ends.append(ends[-1] + len(part))
        values = pa.concat_arrays(parts) if parts else pa.array([], kind)
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values)

    # ---- what the owner of the instance calls ---------------------------------------------------------------------

    def speaks_for(self, desk: Desk) -> bool:
        """Whether this is the voice of that analyst before that data set."""
        return self._desk is not None and self._desk.same_as(desk)

    def refusal(self, message: str) -> DuckDPError | None:
        """The refusal that a message of DuckDB's quotes; to be raised: what is kept here knows no frames."""
        found = next((e for e in reversed(self._refusals) if _told(e) in message), None)
        if found is None:
            return None
        again = type(found).__new__(type(found), *found.args)
        vars(again).update(vars(found))
        return again

    def hold(self, answer: Answer) -> str:
        """A token by which columns of an answer that is at hand are fetched, while it is remembered."""
        token = self._seal(json.dumps(["", [], [], secrets.token_hex(16), ""]))
        self._remember(token, answer)
        return token

    def drop(self, token: str) -> None:
        """Forget an answer that was held."""
        with self._lock:
            self._answers.pop(token, None)

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Refuse each call that this thread binds, which is the thread that runs a statement: Q202.

        The outer part of a query is bound before its charge, and what it releases was read off its text: a macro or
        view of the analyst's own must ask for nothing beside.
        """
        self._silent.on = True
        try:
            yield
        finally:
            self._silent.on = False

    def close(self) -> None:
        """Answer no call any more."""
        self._desk = None
        with self._lock:
            self._answers.clear()
            self._planned.clear()

    # ---- the work -------------------------------------------------------------------------------------------------

    def _bind(self, name: str, arguments: Texts, lists: Lists) -> str:
        desk = self._open_desk()
        if getattr(self._silent, "on", False):
            raise QueryError("Q202", ways.ASKING)
        with desk.asking(lambda: describe_texts(name, arguments, lists)) as asking:
            desk.require_grant()
            _require_short(json.dumps([name, arguments, lists], ensure_ascii=False))  # reading it takes time
            since = desk.ledger_state()  # before it is planned: what is written meanwhile, it may not have seen
            planned = plan_texts(desk, name, arguments, lists)
            call = [name, arguments, lists, secrets.token_hex(16), _shape(planned)]
            token = self._seal(json.dumps(call, ensure_ascii=False))
            asking.leave_out()  # nothing was asked yet
            self._keep(token, since, planned)
        if planned.after is not None:
            return planned.after(select_parts(token, planned.parts))
        select = select_rows if are_few(planned.rows, len(planned.columns)) else select_columns
        return select(token, planned.columns)

    def _query(self, statement: str, terms: Mapping[str, str], began: list[bool]) -> AtOnce | None:
        desk, name = self._open_desk(), "dp_query"
        if not _names_protected(desk, statement):
            return None
        arguments = texts_of(name, {**terms, "statement": statement})
        with desk.asking(lambda: describe_texts(name, arguments, ())) as asking:
            _require_short(json.dumps([name, arguments], ensure_ascii=False))
            with desk.one_look():
                desk.require_grant()
                planned = plan_texts(desk, name, arguments, ())
            if planned.after is not None or not cross_plainly(planned.rows, planned.columns):
                asking.leave_out()  # it is asked when it is bound
                return None
            began.append(True)
            answer = self._run(planned, secrets.token_hex(16))
        return AtOnce(None, True, planned.columns, rows_of(answer)[1:])

    def _rows(self, token: str) -> Rows:
        answer = self._answer(token)
        if _cells(answer) > 100 * FEW_CELLS or len(set(map(len, answer))) > 1:
            raise ParameterError("P107", "token", "...", "is of a larger answer, which crosses by columns.")
        return rows_of(answer)

    def _columns(self, function: str, pairs: list[tuple[str, int]]) -> list[Any]:
        found = []
        for token, index in pairs:
            answer = self._answer(token)
            if not 0 <= index < len(answer) or answer[index].function != function:
                raise ParameterError("P107", "index", index, "is not a column of that type.")
            found.append(answer[index].array())
        if len(found) > 1 and sum(map(len, found)) > MOST_CELLS:
            raise ParameterError("P107", "token", "...", "was fetched too often at once.")
        return found

    def _answer(self, token: str) -> Answer:
        """The answer to a token's call: remembered, or charged and computed now; of a revoked or frozen grant none."""
        desk = self._open_desk()
        with desk.asking("(a token that was not made by this connection)") as asking:
            call = self._open(token)
            asking.is_about(lambda: describe_texts(*call[:3]))
            asking.outcome = "explained" if call[0].startswith("dp_explain") else "answered"
            desk.require_grant()
            with self._turn(token):
                with self._lock:
                    found = self._answers.get(token)
                if found is None:
                    found = self._compute(token, call)
                    self._remember(token, found)
                else:
                    asking.leave_out()  # another column, or another reader, of what was asked
        return found

    def _compute(self, token: str, call: list[Any]) -> Answer:
        name, arguments, lists, nonce, shape = call
        planned = self._kept(token) or plan_texts(self._open_desk(), name, arguments, lists)
        if _shape(planned) != shape:  # bound before a declaration changed, run after
            raise CatalogError("C103", "the declarations changed since the statement was prepared. Prepare it again.")
        return self._run(planned, nonce)

    def _run(self, planned: Planned, nonce: str) -> Answer:
        found = planned.run(nonce)
        self._answered(found)
        parts = found.typed(intervals=planned.intervals, note=planned.note)
        return [Crossing(kind, part[2]) for (_, kind), part in zip(planned.columns, parts, strict=True)]

    def _keep(self, token: str, since: object, planned: Planned) -> None:
        """Keep the plan of a call until it runs, which is at once in most statements."""
        with self._lock:
            self._planned[token] = since, planned
            while len(self._planned) > MOST_PLANNED:
                self._planned.popitem(last=False)

    def _kept(self, token: str) -> Planned | None:
        """The plan of a call, if nobody has written to the ledger since: what it was made from stands."""
        with self._lock:
            since, planned = self._planned.pop(token, (None, None))
        return planned if since is self._open_desk().ledger_state() else None

    def _remember(self, token: str, answer: Answer) -> None:
        with self._lock:
            self._answers[token] = answer
            while len(self._answers) > 1 and (
                len(self._answers) > REMEMBERED or sum(map(_cells, self._answers.values())) > MOST_CELLS
            ):
                self._answers.popitem(last=False)

    @contextmanager
    def _turn(self, token: str) -> Iterator[None]:
        """One thread at a time for a token."""
        with self._lock:
            turn, waiting = self._turns.get(token) or (threading.Lock(), 0)
            self._turns[token] = turn, waiting + 1
        try:
            with turn:
                yield
        finally:
            with self._lock:
                waiting = self._turns[token][1] - 1
                if waiting:
                    self._turns[token] = turn, waiting
                else:
                    del self._turns[token]

    def _laundered(self, work: Callable[..., Any], *arguments: object) -> tuple[Any, str | None]:
        """What a function of ours returns, or why not: our coded text, or one constant text for anything else."""
        try:
            return work(*arguments), None
        except DuckDPError as error:
            self._refusals.append(error.with_traceback(None))
            return None, _told(error)
        except KeyboardInterrupt:
            return None, f"E102: {CODES['E102']}."
        except BaseException:  # noqa: BLE001 - the boundary: DuckDB forwards any text, so none but ours may pass
            return None, f"X101: {CODES['X101']}."

    def interrupt(self) -> None:
        """End the private reads under way of whatever this instance waits for."""
        desk = self._desk
        if desk is not None:
            desk.interrupt()

    def _open_desk(self) -> Desk:
        self._home.require("the connection")
        if self._desk is None:
            raise closed("the curator")
        return self._desk

    # ---- tokens ---------------------------------------------------------------------------------------------------

    def _seal(self, call: str) -> str:
        _require_short(call)
        body = base64.urlsafe_b64encode(call.encode()).decode()
        return f"{body}.{self._mac(body)}"

    def _open(self, token: str) -> list[Any]:
        body, _, mac = token.rpartition(".") if len(token) <= MOST_TOKEN else ("", "", "")
        if not hmac.compare_digest(mac.encode(), self._mac(body).encode()):
            raise ParameterError("P107", "token", "...", "was not made by this connection.")
        return json.loads(base64.urlsafe_b64decode(body))  # type: ignore[no-any-return]

    def _mac(self, body: str) -> str:
        text = f"{self._open_desk().analyst}\n{body}".encode()
        return hmac.new(self._key, text, hashlib.sha256).hexdigest()


def _told(error: DuckDPError) -> str:
    """A refusal as an analyst reads it: where the ledger lies is the owner's."""
    path = error.path if isinstance(error, LedgerError) else None
    return str(error).replace(path, "...") if path else str(error)


def _shape(planned: Planned) -> str:
    """Digest of the columns that a call was bound to."""
    return hashlib.sha256(repr(planned.columns).encode("utf-8", "replace")).hexdigest()


def _cells(answer: Answer) -> int:
    return sum(map(len, answer))


def _text(value: str) -> str:
    """A text as an SQL literal; what cannot be printed is left out."""
    return sql_text("".join(c if c.isprintable() else " " for c in value))


def _names_protected(desk: Desk, statement: str) -> bool:
    try:
        return desk.names_protected(statement)
    except QueryError:  # Q101, Q102, Q104
        return False


def _require_short(call: str) -> None:
    size = len(call.encode())
    if size > MOST_CALL:
        rule = f"a call takes at most {MOST_CALL:,} bytes, its list included. Split the list into several calls."
        raise ParameterError("P107", "arguments", f"{size:,} bytes", rule)
