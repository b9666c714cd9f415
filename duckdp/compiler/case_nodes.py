"""CASE and ``if``: one of several values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from sqlglot import exp

from duckdp.catalog.table import Kind
from duckdp.compiler.expression import Case, Expr, is_null
from duckdp.compiler.types import case_type, chosen


class CaseNodes(ABC):
    """The part of ``scalars.Scalars`` that translates them; ``rows`` says that values are those of rows."""

    rows: bool

    @abstractmethod
    def __call__(self, node: exp.Expression) -> Expr:
        """Translate a node."""

    @abstractmethod
    def _common(self, args: list[Expr], node: exp.Expression) -> Kind: ...

    @abstractmethod
    def _equal(self, node: exp.Expression, args: list[Expr]) -> Expr: ...

    @abstractmethod
    def _coerce(self, arg: Expr, kind: Kind, node: exp.Expression) -> Expr: ...

    def _case(self, node: exp.Expression) -> Expr:
        if isinstance(node, exp.If):
            return self._make_case([(self(node.this), self(node.args["true"]))], node.args.get("false"), node)
        subject = node.args.get("this")
        branches = []
        for arm in node.args["ifs"]:
            condition = self(arm.this)
            if subject is not None:
                condition = self._equal(node, [self(subject), condition])
            branches.append((condition, self(arm.args["true"])))
        return self._make_case(branches, node.args.get("default"), node)

    def _make_case(
        self, branches: list[tuple[Expr, Expr]], default: exp.Expression | None, node: exp.Expression
    ) -> Expr:
        values = [v for _, v in branches] + ([] if default is None else [self(default)])
        kind = self._common([v for v in values if not is_null(v)] or values, node)
        conditions = [self._coerce(c, Kind.BOOLEAN, node) for c, _ in branches]
        values = [self._coerce(v, kind, node) for v in values]
        met = case_type(values[: len(branches)], values[-1] if default is not None else None)
        values = chosen(values, met) if self.rows else values
        last = values.pop() if default is not None and not is_null(values[-1]) else None
        found = Case(tuple(zip(conditions, values, strict=False)), last, kind)
        return replace(found, type=met) if kind is Kind.NUMBER else found

    case_methods: ClassVar[dict[type[exp.Expression], Callable[[CaseNodes, exp.Expression], Expr]]] = {
        exp.Case: _case,
        exp.If: _case,
    }
