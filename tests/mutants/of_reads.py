"""Faults in what private reads clamp, bound, drop and release: contributions beyond the claim, or cells that leak."""

from __future__ import annotations

from tests.mutants.mutant import LOSSES, Mutant

_VALUES = "duckdp/compiler/distinct_values.py"
_T_ORDER = ("tests/compiler/test_order_aggregates.py",)
_EMIT, _PRINT, _QUANT = (f"duckdp/compiler/{n}.py" for n in ("emit", "printing", "quantile"))
_REL, _PLAN, _SCAN = "duckdp/compiler/release.py", "duckdp/compiler/plan.py", "duckdp/smooth/sums/scan.py"
_MISSING, _ENGINE = "duckdp/synthetic/lp/buy/null_patterns.py", "duckdp/vault/engine.py"
_T = (
    "tests/compiler/test_sensitivity.py",
    "tests/compiler/test_local_choice.py",
    "tests/compiler/test_emit_equals.py",
    "tests/compiler/test_totality.py",
)
_T_QUANT = ("tests/compiler/test_quantile_neighbours.py", "tests/compiler/test_chosen_rows.py")
_T_CHOSEN = ("tests/compiler/test_chosen_rows.py", "tests/compiler/test_local_choice.py")
_T_PLAN = ("tests/compiler/test_sensitivity.py", LOSSES, "tests/compiler/test_emit_equals.py", "tests/test_session.py")
_T_SUMS = (
    "tests/smooth/test_moments_sensitivity.py",
    "tests/smooth/test_moments_paths.py",
    "tests/smooth/test_smooth_moments.py",
)
_CORE_READS, _T_PARTS = "duckdp/core/reads.py", ("tests/core/test_reads.py",)
_T_SPLIT = ("tests/privacy/test_parts.py",)
_T_THRESHOLD = tuple(
    f"tests/privacy/test_threshold.py::{name}"
    for name in ("test_threshold_by_exact_summation", "test_a_key_is_shown_from_tau_on")
)

# fmt: off
READS: tuple[Mutant, ...] = (
    Mutant("known: keys alone that no declaration lists", "duckdp/compiler/known.py", "keyed = bool(query.keys) and all(k.domain is not None for k in query.keys)", "keyed = bool(query.keys)", ("tests/compiler/test_known.py::test_keys_alone_are_their_domains_whatever_the_rows",)),
    Mutant("parsed: figures in another order", "duckdp/vault/parsed.py", "[float(text) for text in places]", "[float(text) for text in places][::-1]", ("tests/test_parsed.py",)),
    Mutant("workers: a question at once is not timed", "duckdp/serve/workers.py", 'timed = method != "bind" and', 'timed = method not in ("bind", "query") and', ("tests/serve/test_doors.py::test_what_may_need_a_private_read_leaves_on_the_grid",)),
    Mutant("announced: rows of other columns", "duckdp/serve/acting.py", "return fitted(self._run(statement, portal.values), told.columns)", "return self._run(statement, portal.values)", ("tests/serve/test_announced.py::test_rows_are_as_announced",)),
    Mutant("announced: charged before it is compared", "duckdp/serve/acting.py", "        if looked_at and not", "        if False and not", ("tests/serve/test_announced.py::test_settings_between_change_no_row_that_was_announced",)),
    # ---- clamps
    Mutant("emit: sums not clamped above", _EMIT, "WHEN {value} >= {high} THEN {high} WHEN {value}", "WHEN {value}", ("tests/compiler/test_totality.py::test_what_a_row_adds_is_in_its_range_for_every_double",)),
    Mutant("emit: sums not clamped below", _EMIT, " WHEN {value} <= {low} THEN {low}", "", ("tests/compiler/test_totality.py::test_what_a_row_adds_is_in_its_range_for_every_double",)),
    Mutant("emit: u not clamped", _EMIT, 'u = f"system.main.least(system.main.greatest(v{i}, 0e0), 1e0)"', 'u = f"v{i}"', ("tests/compiler/test_totality.py::test_what_a_row_adds_is_in_its_range_for_every_double",)),
    Mutant("printing: numbers not clamped above", _PRINT, 'f"WHEN {value} < {lower} THEN {lower}", f"WHEN {value} > {upper} THEN {upper}"]', 'f"WHEN {value} < {lower} THEN {lower}"]', ("tests/compiler/test_totality.py", "tests/compiler/test_sensitivity.py")),
    Mutant("printing: NaN stays", _PRINT, 'arms = [] if column.integral else [f"WHEN system.main.isnan({value}) THEN NULL"]', "arms = []", ("tests/compiler/test_totality.py::test_columns_are_read_totally_by_every_declaration", "tests/compiler/test_totality.py::test_no_number_is_nan_and_its_facts_hold")),
    Mutant("printing: dates not clamped", _PRINT, "THEN {lower} WHEN {value} > {upper} THEN {upper} ELSE {value} END)\"\n\n\ndef _whole", "THEN {lower} ELSE {value} END)\"\n\n\ndef _whole", ("tests/compiler/test_totality.py", "tests/compiler/test_sensitivity.py")),
    Mutant("printing: long text whole", _PRINT, "THEN system.main.left({text}, {MAX_TEXT})", "THEN {text}", ("tests/compiler/test_totality.py", "tests/test_sources.py")),
    Mutant("printing: collation of the column", _PRINT, " END COLLATE \"binary\")'", " END)'", ("tests/compiler/test_totality.py::test_texts_are_compared_byte_by_byte_whatever_the_owners_collation",)),
    Mutant("printing: rows without a unit count", _PRINT, 'conditions.append(f"{_unit_of(table)} IS NOT NULL")', "pass", ("tests/test_null_units.py::test_every_read_drops_them", "tests/compiler/test_emit_equals.py")),
    Mutant("printing: a view's filter ignored", _PRINT, "    if table.filter is not None:\n        conditions.append(_view_filter(table, parameters))\n", "", ("tests/compiler/test_sensitivity.py", "tests/test_declarations.py")),
    # ---- parts
    Mutant("parts: the largest one", _CORE_READS, "return sum(values) if values else None", "return max(values) if values else None", _T_PARTS),
    Mutant("parts: nothing is nought", _CORE_READS, "return sum(values) if values else None", "return sum(values)", _T_PARTS),
    Mutant("parts: fractions add up", _CORE_READS, "    if any(type(value) is not int for value in values):\n", "    if False:\n", _T_PARTS),
    Mutant("parts: keys out of order", _CORE_READS, "            if last is not None and place < last:\n", "            if False:\n", _T_PARTS),
    Mutant("parts: lists of the last one", _CORE_READS, "cells if before is None else [a + b for", "cells if True else [a + b for", _T_PARTS),
    Mutant("parts: the first alone", _CORE_READS, "        for part in parts:\n            yield from part\n", "        yield from parts[0]\n", _T_PARTS),
    Mutant("parts: open keys said to come in any order", _EMIT, "ordered=is_open)", "ordered=not is_open)", _T_SPLIT),
    Mutant("emit: rows without an argument are in the rest", _EMIT, "*((rows - weight) * steps for rows in nulls)]", "*(rows * steps for rows in nulls)]", _T),
    Mutant("emit: units' NULLs are in the rest too", _EMIT, "weight * steps - sum(parts) - sum(nulls), *nulls]", "weight * steps - sum(parts), *nulls]", _T),
    Mutant("emit: places from nought", _EMIT, "places = count(1)", "places = count(0)", _T),
    Mutant("release: an open key by its place", _REL, "v if names is None else names[v] for v", "v for v", ("tests/privacy/test_parts.py::test_a_listed_key_is_released_by_name",)),
    Mutant("parts: groups for one row", _EMIT, "return AddByKey(keys=keys, ordered=ordered) if keys else Add()", "return Add()", _T_SPLIT),
    Mutant("release: a key has the sign of a row's zero", _REL, "        return value + 0.0\n", "        return value\n", ("tests/privacy/test_parts.py::test_a_released_key_has_no_sign_of_zero",)),
    # ---- different values, bins
    Mutant("values: no bound on a unit's", _VALUES, "WHERE nth <= {most}", "WHERE nth >= 1", _T_ORDER),
    Mutant("values: in all groups", _VALUES, "if keys and (size is None or size > plan.groups):", "if False:", _T_ORDER),
    Mutant("values: units choose the same ones", _VALUES, "{', '.join([*names, f'v{i}', secret])}", "{', '.join([f'v{i}', secret])}", _T_ORDER),
    Mutant("values: parts add up", _EMIT, 'if any(m.kind == "values" for m in plan.measures):', "if False:", _T_ORDER),
    Mutant("bins: a unit's rows not scaled", _EMIT, 'f"{most} // system.main.greatest(n{i}, {most})"', '"1"', _T),
    Mutant("values: beyond doubt one by one", "duckdp/compiler/binned.py", "max(1 - 2 * (1 - level) / count, 0.5)", "level - 0.5", _T_ORDER),
    Mutant("values: fewer claimed than count", "duckdp/compiler/measures.py", "int(min(table.max_rows, max(measure.upper, 1)))", "1", _T_ORDER),
    Mutant("bins: of what is made of quantiles the noise alone", "duckdp/compiler/intervals.py", "and (reads_bins(expr) or jumps(expr)):", "and jumps(expr):", _T_ORDER),
    Mutant("steps: of what jumps the noise alone", "duckdp/compiler/intervals.py", "and (reads_bins(expr) or jumps(expr)):", "and reads_bins(expr):", ("tests/compiler/test_stepped_bars.py::test_intervals_of_stepped_expressions_hold",)),
    Mutant("steps: sold by first order", "duckdp/compiler/evaluate.py", "unknown |= evaluation.bars.is_uncertain(expr)", "pass", ("tests/compiler/test_stepped_bars.py::test_no_error_is_sold_for_what_jumps",)),
    Mutant("bins: one level for several figures", "duckdp/compiler/intervals.py", "level = 1 - (1 - wanted) / len(parts)", "level = wanted", _T_ORDER),
    Mutant("bins: intervals without room", "duckdp/compiler/binned.py", "room = of.room(of.share, level) + 1", "room = of.room(of.share, level) * 0.1", _T_ORDER),
    # ---- bounding
    Mutant("emit: a unit's sum unbounded above", _EMIT, "CASE WHEN s{i}_0 > {high} THEN {high} WHEN s{i}_0", "CASE WHEN s{i}_0", _T),
    Mutant("emit: a unit's sum unbounded below", _EMIT, "WHEN s{i}_0 < {low} THEN {low} ELSE s{i}_0", "ELSE s{i}_0", _T),
    Mutant("emit: a unit's cells not scaled", _EMIT, "THEN s{i}_{j} * {share} ELSE s{i}_{j} END", "THEN s{i}_{j} ELSE s{i}_{j} END", _T),
    Mutant("emit: a unit's weight unbounded", _EMIT, 'cells.append(f"system.main.least({rows}, {most})")', 'cells.append(rows)', _T),
    Mutant("emit: a unit counts as its rows", _EMIT, 'return [f"(CASE WHEN r{i} > 0 THEN 1 ELSE 0 END)"]', 'return [f"r{i}"]', _T),
    Mutant("emit: all groups kept", _EMIT, "if not keys or (size is not None and size <= plan.groups):", "if True:", _T),
    Mutant("emit: one group too many", _EMIT, "WHERE place <= {most}) AS kept", "WHERE place <= {most} + 1) AS kept", _T),
    Mutant("emit: groups kept over all units", _EMIT, "OVER (PARTITION BY {UNIT} ORDER BY {order})\"\n    return f\"(SELECT * FROM (SELECT *, {rank} AS place FROM {rows})", "OVER (ORDER BY {order})\"\n    return f\"(SELECT * FROM (SELECT *, {rank} AS place FROM {rows})", _T),
    Mutant("emit: keys outside the domain cross", _EMIT, 'return f"({value}) BETWEEN {low} AND {high}"', 'return f"({value}) IS NOT NULL"', ("tests/compiler/test_totality.py::test_open_keys_that_no_whole_number_shows_do_not_cross",)),
    Mutant("quantile: all rows of a unit", _QUANT, "FROM {print_chosen(inner, ['x'], salt, table.max_rows)} AS r", "FROM {inner} AS r", _T_QUANT),
    Mutant("quantile: a unit is one row", _QUANT, "max_rows=table.max_rows if table.unit_key is not None else 1", "max_rows=1", _T_QUANT),
    Mutant("chosen rows: over all units", _PRINT, 'over = "PARTITION BY r.unit ORDER BY', 'over = "ORDER BY', _T_CHOSEN),
    Mutant("chosen rows: one too many", _PRINT, "nth_value(r.draw, {most + 1})", "nth_value(r.draw, {most + 2})", _T_CHOSEN),
    Mutant("chosen rows: the edge too", _PRINT, "r.draw < r.edge)", "r.draw <= r.edge)", _T_CHOSEN),
    Mutant("chosen rows: copies are one", _PRINT, "system.main.range(r.n)", "system.main.range(1)", _T_CHOSEN),
    Mutant("chosen rows: copies are all or nothing", _PRINT, "{listed}, r.copy, CAST({salt}", "{listed}, CAST({salt}", _T_CHOSEN),
    Mutant("chosen rows: a draw without the unit", _PRINT, "system.main.hash(r.unit, {listed}, r.copy", "system.main.hash({listed}, r.copy", _T_CHOSEN),
    Mutant("chosen rows: by place", _PRINT, "AS copy FROM {counted} AS r)", "+ system.main.row_number() OVER () * 1000 AS copy FROM {counted} AS r)", _T_CHOSEN),
    Mutant("scan: heavy units weigh all", _SCAN, 'weight = f"CASE WHEN s.c <= {max_rows} THEN {number(1 << bits)} ELSE {share} END"', "weight = number(1 << bits)", _T_SUMS),
    Mutant("scan: counted over all units", _SCAN, "OVER (PARTITION BY s.{UNIT}) AS c", "OVER () AS c", _T_SUMS),
    Mutant("scan: null rule outside the bounds", _SCAN, "if filled is not None and not axis.lower <= as_number(filled) <= axis.upper:", "if False:", _T_SUMS),
    # ---- release
    Mutant("release: threshold one lower", _REL, "if noisy[0] >= (self.plan.tau or 0):", "if noisy[0] >= (self.plan.tau or 0) - 1:", _T_THRESHOLD),
    Mutant("release: no threshold", _REL, "if noisy[0] >= (self.plan.tau or 0):", "if True:", _T_THRESHOLD),
    Mutant("release: only groups that exist", _REL, "exact = [found.get(key, zeros) for key in query.groups_of([key_codes(k) for k in query.keys])]", "exact = list(found.values())", ("tests/privacy/test_noise_alone.py::test_what_leaves_follows_the_data_through_noise_alone[SelectTask-public keys]",)),
    Mutant("plan: a public count with a WHERE", _PLAN, "everyone = query.where is None and not query.keys", "everyone = not query.keys", ("tests/privacy/test_noise_alone.py::test_what_leaves_follows_the_data_through_noise_alone[SelectTask-rows by a predicate]",)),
    Mutant("plan: a public count with keys", _PLAN, "everyone = query.where is None and not query.keys and", "everyone = query.where is None and", ("tests/privacy/test_noise_alone.py::test_what_leaves_follows_the_data_through_noise_alone[SelectTask-rows by a key]",)),
    Mutant("plan: a public count of a view", _PLAN, "and query.table.filter is None and unit_is_row", "and unit_is_row", ("tests/privacy/test_noise_alone.py::test_what_leaves_follows_the_data_through_noise_alone[SelectTask-rows of a view]",)),
    Mutant("plan: domain as large as it is", _PLAN, "if size is not None and size > MAX_DOMAIN:", "if False:", ("tests/test_caps.py::test_groups_that_hold_no_released_cell_count_too",)),
    Mutant("plan: open keys without delta", _PLAN, "if found is not None and delta_atto == 0:", "if False:", ("tests/privacy/test_threshold.py::test_keys_without_a_domain_cost_delta",)),
    Mutant("plan: delta of keys and noise alike", _PLAN, "half = delta_atto // 2 if open_keys else 0", "half = 0", ("tests/privacy/test_losses.py::test_shares_of_every_plan_add_up_to_its_charge",)),
    Mutant("plan: a unit in one group", _PLAN, "return query.table.max_groups if size is None else min(size, query.table.max_groups)", "return 1", ("tests/compiler/test_emit_equals.py::test_groups",)),
    Mutant("identity: WHERE left out", _PLAN, '"where": show(self.query.where),', '"where": "",', ("tests/privacy/test_identities.py::test_every_public_figure_is_in_the_text[_selects]",)),
    Mutant("identity: the declaration left out", _PLAN, '                "table": dump_table(self.query.table),\n', '                "table": self.query.table.name,\n', ("tests/privacy/test_identities.py::test_every_public_figure_is_in_the_text[_selects]",)),
    Mutant("identity: epsilon and scales left out", _PLAN, '                "scales": [n.scale if n else 0 for n in self.noises],\n                "epsilon": self.loss.epsilon_nano,\n                "delta": self.loss.delta_atto,\n', '                "tail": 0,\n', ("tests/privacy/test_identities.py::test_every_public_figure_is_in_the_text[_selects]",)),
    Mutant("engine: rows without a charge", _ENGINE, "if not isinstance(charge, Charge):", "if False:", ("tests/test_sources.py::test_no_row_is_read_without_a_charge_nor_more_of_them_than_are_noised",)),
    Mutant("engine: any number of rows", _ENGINE, "    if most is not None and crossed > most:", "    if False:", ("tests/test_sources.py::test_no_row_is_read_without_a_charge_nor_more_of_them_than_are_noised",)),
    Mutant("missing: replace moves once", _MISSING, "change = rows if self.neighbours is Neighbours.ADD_REMOVE else 2 * rows", "change = rows", ("tests/synthetic/test_missing.py",)),
    Mutant("missing: a unit is one row", _MISSING, "rows = self.table.max_rows if self.table.unit_key is not None else 1", "rows = 1", ("tests/synthetic/test_missing.py", LOSSES)),
)
