"""Faults in aggregates of blocks: a unit changes more than is noised, values tell their order, two questions are one."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_BLOCKS, _ROWS = "duckdp/compiler/block_values.py", "duckdp/compiler/block_rows.py"
_MEAN, _MEDIAN = "duckdp/mechanisms/block_mean.py", "duckdp/mechanisms/block_median.py"
_CENTER, _AGGREGATE = "duckdp/mechanisms/center_of_attention.py", "duckdp/compiler/block_aggregate.py"
_READ, _EXPRESSION = "duckdp/compiler/block_read.py", "duckdp/compiler/block_expression.py"
_T, _T_LAWS = ("tests/test_sample_aggregate.py",), ("tests/mechanisms/test_block_mechanisms.py",)
_T_IDENTITIES, _T_DRAWS = ("tests/privacy/test_identities.py",), ("tests/privacy/test_draws.py",)
_VECTORS, _T_VECTORS = "duckdp/compiler/block_vectors.py", ("tests/test_block_vectors.py",)
_ASKED = "duckdp/functions/sample_aggregate.py"
_T_PARTS = ("tests/privacy/test_parts.py",)

BLOCKS: tuple[Mutant, ...] = (
    Mutant(
        "blocks: a replaced unit changes one",
        _BLOCKS,
        "return 1 if self.neighbours is Neighbours.ADD_REMOVE else 2",
        "return 1",
        _T,
    ),
    Mutant(
        "blocks: rows of a unit in any of them", _READ, "print_block('q.unit', salt", "print_block(listed, salt", _T
    ),
    Mutant(
        "blocks: rows by what all rows are",
        _READ,
        "system.main.unnest(system.main.range(q.n)) AS copy",
        "system.main.unnest(system.main.range(q.n)) + system.main.count_star() OVER () AS copy",
        _T,
    ),
    Mutant("blocks: equal rows are one", _READ, "system.main.range(q.n)", "system.main.range(1)", (*_T, *_T_VECTORS)),
    Mutant(
        "blocks: those without rows are left out",
        _BLOCKS,
        "for block in range(parts[0].blocks))",
        "for block in sorted(read))",
        _T,
    ),
    Mutant(
        "blocks: values that are none are the least",
        _BLOCKS,
        "            return CELLS // 2\n",
        "            return 0\n",
        _T,
    ),
    Mutant(
        "blocks: what fails is told",
        _AGGREGATE,
        "except (ArithmeticError, ValueError, TypeError):",
        "except KeyError:",
        (*_T_DRAWS, *_T),
    ),
    Mutant(
        "blocks: numbers that are none of theirs",
        _BLOCKS,
        "{block: cells for block, *cells in rows}",
        "{abs(block or 0) % parts[0].blocks: cells for block, *cells in rows}",
        _T,
    ),
    Mutant(
        "blocks: values are not clamped",
        _BLOCKS,
        "return min(max(math.floor(share * CELLS + 0.5), 0), CELLS)",
        "return math.floor(2 * share * CELLS + 0.5)",
        _T,
    ),
    Mutant(
        "blocks: the epsilon of a charge is not of its identity",
        _BLOCKS,
        "self.combination, self.epsilon_nano, self.neighbours.value]\n        return json",
        "self.combination, self.neighbours.value]\n        return json",
        _T_IDENTITIES,
    ),
    Mutant(
        "blocks: their number is not of its identity",
        _BLOCKS,
        "terms = [self.blocks, *ends",
        "terms = [*ends",
        _T_IDENTITIES,
    ),
    Mutant(
        "blocks: the range is not of its identity",
        _BLOCKS,
        "terms = [self.blocks, *ends, self",
        "terms = [self.blocks, self",
        _T_IDENTITIES,
    ),
    Mutant(
        "blocks: p of a quantile is not of its identity",
        _AGGREGATE,
        "more = [] if self.fraction is None else [repr(self.fraction)]\n        listed",
        "more: list[str] = []\n        listed",
        _T_IDENTITIES,
    ),
    Mutant(
        "blocks: doubles are added",
        _ROWS,
        '_ONE = (_N, "system.main.sum(c0)")',
        '_ONE = (_N, "system.main.sum(c0 * 0.1e0) * 10")',
        _T_PARTS,
    ),
    Mutant(
        "blocks: any aggregate",
        _AGGREGATE,
        "    return None if row is None else _called",
        "    row = row or (BY_WORD['mad'] if isinstance(node, exp.Anonymous) else None)\n    return None if row is None else _called",
        _T,
    ),
    Mutant("blocks: arguments without bounds", _AGGREGATE, "if not facts(argument).interval.finite:", "if False:", _T),
    Mutant("block mean: one block of two", _MEAN, "self.changed * self.cells)", "self.cells)", _T_LAWS),
    Mutant("block median: one block of two", _MEDIAN, "/ (2 * self.changed)", "/ 2", _T_LAWS),
    Mutant("block median: scores that move one way", _MEDIAN, "/ (2 * self.changed)", "/ self.changed", _T_LAWS),
    Mutant("block median: a run is one cell", _MEDIAN, "return first + draw // weight", "return first", _T_LAWS),
    Mutant(
        "block median: a run weighs as one cell",
        _MEDIAN,
        "random_bits(_DRAWN) * sum(length * weight for _, length, weight in weighed)",
        "random_bits(_DRAWN) * sum(weight for _, _, weight in weighed)",
        _T_LAWS,
    ),
    Mutant(
        "center: ranges that need not meet",
        _CENTER,
        "inner = (most + step) // 2 + 1",
        "inner = (most + step) // 2",
        _T_LAWS,
    ),
    Mutant(
        "center: a replaced unit is one step",
        _CENTER,
        "range(inner, max(inner, most) + 2 * step + 1, step)",
        "range(inner, max(inner, most) + 2 * step + 1, 1)",
        _T_LAWS,
    ),
    Mutant("center: both ranges as narrow as one's own", _CENTER, "* (near + far) for", "* (near + near) for", _T_LAWS),
    Mutant(
        "center: what lies beyond all values is none",
        _CENTER,
        "if k <= most else self.cells",
        "if k <= most else 0",
        _T_LAWS,
    ),
    Mutant(
        "block vectors: rows by one aggregate's arguments",
        _READ,
        "print_block(f'{listed}, q.copy', salt",
        "print_block(f'q.{names[0]}, q.copy', salt",
        _T_VECTORS,
    ),
    Mutant(
        "blocks: rows of which one argument is known",
        _READ,
        'known = " AND ".join(f"q.{name} IS NOT NULL"',
        'known = " OR ".join(f"q.{name} IS NOT NULL"',
        (*_T, *_T_VECTORS),
    ),
    Mutant(
        "blocks: FILTER counts all rows",
        _AGGREGATE,
        "if self.where is None:\n            return self.arguments",
        "if self.arguments:\n            return self.arguments",
        _T,
    ),
    Mutant(
        "blocks: conditions are not of the identity",
        _AGGREGATE,
        'return called if self.where is None else f"{called} where {show(self.where)}"',
        "return called",
        _T_IDENTITIES,
    ),
    Mutant(
        "blocks: counts of nothing are none",
        _AGGREGATE,
        "return self.row.of_none",
        "return None",
        _T,
    ),
    Mutant(
        "blocks: what has no rule is let through",
        _EXPRESSION,
        "if row.released is None and row.holds is None:",
        "if False:",
        _T,
    ),
    Mutant(
        "blocks: a sum of a block for that of all",
        _EXPRESSION,
        "and calls[expr.column.name].row.grows:",
        "and calls[expr.column.name].row.by_value:",
        _T,
    ),
    Mutant(
        "blocks: the value of another aggregate",
        _AGGREGATE,
        "        first += len(call.cells)",
        "        first += 0",
        _T,
    ),
    Mutant("blocks: DISTINCT counts all", _READ, "if call.distinct else rows", "if False else rows", _T),
    Mutant(
        "blocks: DISTINCT is not of the identity",
        _AGGREGATE,
        "{'DISTINCT ' if self.distinct else ''}",
        "",
        _T_IDENTITIES,
    ),
    Mutant(
        "blocks: distinct values add up over parts",
        _AGGREGATE,
        "return self.row.sums and not self.distinct",
        "return self.row.sums",
        _T_PARTS,
    ),
    Mutant("blocks: // is /", _AGGREGATE, "return INTEGER\n", "return DOUBLE\n", _T),
    Mutant("blocks: work without bound", _ASKED, "if steps * blocks > _MOST_STEPS:", "if False:", _T),
    Mutant("blocks: arguments without end", _ASKED, "if sum(parts.values()) > MAX_NODES:", "if False:", _T),
    Mutant(
        "blocks: whole numbers between cells",
        _AGGREGATE,
        "known, span = facts(argument), _interval(argument)",
        "known, span = facts(argument), facts(argument).interval",
        _T,
    ),
    Mutant(
        "blocks: fsum is of whole numbers",
        _ROWS,
        "value=_sum, range=_total, grows=True)",
        'value=_sum, range=_total, grows=True, type="sum")',
        _T,
    ),
    Mutant("blocks: reads without bound", _ASKED, "if len(parts) > _MOST_READ:", "if False:", _T),
    Mutant(
        "blocks: one star is as good as another",
        _AGGREGATE,
        "if len(given) > 1 or any(given[0].args.values() if given else ()):",
        "if False:",
        _T,
    ),
    Mutant(
        "block vectors: rows known to any",
        _READ,
        '" AND ".join(f"p.{name} IS NOT NULL"',
        '" OR ".join(f"p.{name} IS NOT NULL"',
        _T_VECTORS,
    ),
    Mutant(
        "block vectors: the centre of one change",
        _VECTORS,
        "epsilon_nano=self.epsilon_nano, changed=changed",
        "epsilon_nano=self.epsilon_nano, changed=1",
        _T_VECTORS,
    ),
    Mutant(
        "block vectors: a part for the whole epsilon",
        _ASKED,
        "each = whole // len(texts)",
        "each = whole",
        ("tests/test_block_vectors.py",),
    ),
    Mutant(
        "block vectors: which ones is not of its identity",
        _VECTORS,
        "dump_table(self.table), asked,",
        "dump_table(self.table),",
        ("tests/privacy/test_identities.py",),
    ),
)
