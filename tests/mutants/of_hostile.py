"""Faults that a hostile reviewer tries next: off by one, branches swapped, one draw for two cells, salts of 0, leaks."""

from __future__ import annotations

from tests.mutants.mutant import LOSSES, SHARES, Mutant

_PLAN, _REL, _EMIT, _PRINT, _MEA, _QUANT = (
    f"duckdp/compiler/{n}.py" for n in ("plan", "release", "emit", "printing", "measures", "quantile")
)
_ADD, _SMOOTH, _TYPES, _CATALOG = (
    "duckdp/mechanisms/additive.py",
    "duckdp/mechanisms/smooth_sensitivity.py",
    "duckdp/core/types.py",
    "duckdp/catalog/table.py",
)
_CHARGES, _BUDGETS, _OBJECTS, _STORE, _OPENING, _LTYPES = (
    f"duckdp/ledger/{n}.py" for n in ("charges", "budgets", "objects", "store", "opening", "types")
)
_DESK, _LOOKUPS, _DATASET, _ENGINE, _FRONT, _GUARDED, _OWNER = (
    f"duckdp/{n}.py"
    for n in ("desk/desk", "desk/lookups", "vault/dataset", "vault/engine", "front/front", "front/guarded", "owner")
)
_SNOISE, _COUNTED, _GROUPED, _SCAN, _SUMMARY = (
    f"duckdp/smooth/{n}.py" for n in ("sum_noise", "buy/counted", "buy/per_group", "sums/scan", "buy/summary_task")
)
_DIRECT, _GRID, _BLOCKS = (f"duckdp/smooth/sums/{n}.py" for n in ("direct", "grid", "blocks"))
_PURSE, _TERMS, _TREE, _SUMS_SQL, _BEST = (
    f"duckdp/synthetic/{n}.py"
    for n in ("unit/buy/purse", "unit/charge_terms", "tree/buy/counts", "unit/buy/sums_sql", "moments/buy/strongest")
)
_WIDE, _READING, _LAID, _MOMENTS_TASK = (
    f"duckdp/synthetic/{n}.py"
    for n in ("unit/buy/unit_task", "unit/buy/reading", "unit/lay_out", "moments/buy/__init__")
)
_T_STRUCTURE = "tests/synthetic/test_structure.py"
_MENDING, _DERIVED = "duckdp/synthetic/unit/mending.py", "duckdp/synthetic/unit/buy/derived_sql.py"
_SYNTHETIC, _MISSING, _THEOREM, _BOUNDS = (
    "duckdp/synthetic/lp/buy/synthesis_task.py",
    "duckdp/synthetic/lp/buy/null_patterns.py",
    "duckdp/synthetic/theorem/buy.py",
    "duckdp/compiler/bounds.py",
)
_IDENTITIES = ("tests/privacy/test_identities.py",)


def _alone(case: str) -> tuple[str, ...]:
    """With every noisy number held, tables that differ give one release; of one case."""
    name = "test_what_leaves_follows_the_data_through_noise_alone"
    return (f"tests/privacy/test_noise_alone.py::{name}[{case}]",)


def _once(case: str) -> tuple[str, ...]:
    """Every draw is for one number, and the order on the disk for none; of one case."""
    name = "test_every_draw_is_for_one_number_and_the_order_on_the_disk_for_none"
    return (f"tests/privacy/test_noise_alone.py::{name}[{case}]",)


_T_LEDGER = (
    "tests/test_ledger.py",
    "tests/test_ledger_owner.py",
    "tests/test_ledger_attacks.py",
    "tests/test_ledger_model.py",
)
_T_OWNER = ("tests/test_owner.py", "tests/test_units.py", "tests/test_session.py")
_T_SOURCE = ("tests/test_sources.py", "tests/test_session.py", "tests/test_owner.py")
_T_SENS = ("tests/compiler/test_sensitivity.py", LOSSES)
_T_CHOSEN = ("tests/compiler/test_chosen_rows.py", "tests/compiler/test_local_choice.py")
_T_SUMS = ("tests/smooth/test_moments_sensitivity.py", "tests/smooth/test_moments_paths.py", LOSSES)
_T_GROUPED = ("tests/smooth/test_grouped.py", LOSSES)
_T_SMOOTH = ("tests/mechanisms/test_smooth_sensitivity.py",)
_T_SECRETS = ("tests/adversary/test_planted_secrets.py", "tests/test_session.py")
_T_FRONT = ("tests/test_guarded.py", "tests/adversary/test_escapes.py", "tests/test_front.py")
_T_PURSE = ("tests/synthetic/wide/test_wide_release.py", LOSSES)

# fmt: off
HOSTILE: tuple[Mutant, ...] = (
    # ---- thresholds and measures
    Mutant("keys: the whole delta for the threshold", _PLAN, "tau = threshold(noises[0], delta_atto=calibration.loss.delta_zcdp_atto, groups=groups)", "tau = threshold(noises[0], delta_atto=calibration.loss.delta_atto, groups=groups)", (SHARES,)),
    Mutant("keys: a unit shows one key", _PLAN, "tau = threshold(noises[0], delta_atto=calibration.loss.delta_zcdp_atto, groups=groups)", "tau = threshold(noises[0], delta_atto=calibration.loss.delta_zcdp_atto, groups=1)", (SHARES,)),
    Mutant("keys: any cell passes the threshold", _REL, "if noisy[0] >= (self.plan.tau or 0):", "if max(noisy) >= (self.plan.tau or 0):", ("tests/privacy/test_threshold.py",)),
    Mutant("keys: rows pass the threshold", _MEA, 'chosen.append(Measure(kind="cells" if unit_is_row else "units"))', 'chosen.append(Measure(kind="cells"))', (SHARES,)),
    Mutant("keys: in the order in which they are found", _EMIT, """        tail += f" ORDER BY {', '.join(f'{k} NULLS LAST' for k in keys)}" """, '        tail += ""', ("tests/compiler/test_emit_equals.py::test_open_groups_come_by_ascending_keys",)),
    Mutant("measures: relations swapped", _MEA, "    if not replacing:\n        unit", "    if replacing:\n        unit", _T_SENS),
    Mutant("measures: a filter is for everyone", _MEA, "        if aggregate.filter != self.filter:\n            return False\n", "", ("tests/compiler/test_emit_equals.py", "tests/compiler/test_evaluate.py", *_T_SENS)),
    # ---- one draw for two cells, exact values
    Mutant("noise: one draw for all cells", _ADD, "for value, z in zip(values, drawn, strict=True)]", "for value, z in zip(values, [drawn[:1] * len(drawn)][0], strict=True)]", _once("SelectTask-public keys")),
    Mutant("summary noise: one draw for all sums", _SNOISE, "            found[member] = value\n", "            found[member] = drawn[0]\n", _once("SummaryTask-laplace, blocks")),
    Mutant("summary noise: drawn at twice the rate", _SNOISE, "drawn = cube_noise(len(members), cube_rate(budget, plan.linf, len(members)))", "drawn = cube_noise(len(members), cube_rate(2 * budget, plan.linf, len(members)))", (LOSSES,)),
    Mutant("summary noise: the first group alone", _SNOISE, "        members = np.flatnonzero(noise.groups == group).tolist()\n", "        members = np.flatnonzero(noise.groups == group).tolist() if group == 0 else []\n", _alone("SummaryTask-cube, sums")),
    Mutant("purse: the exact count under add-remove", _PURSE, "        if self.neighbours is Neighbours.REPLACE:\n            self.rows = float(found)\n", "        if True:\n            self.rows = float(found)\n", _alone("MomentsTask-moments")),
    Mutant("tree: the exact count under add-remove", _TREE, "    if purse.neighbours is Neighbours.REPLACE:\n        purse.rows", "    if True:\n        purse.rows", _alone("TreeTask-tree, gaussian, target")),
    Mutant("counted: the degree of the exact count", _COUNTED, "return stages.last(lambda: self._noised(read(), count))", "return stages.last(lambda: self._noised(read(), read()[0]))", _alone("CountedTask-large epsilon")),
    Mutant("counted: the count is public under add-remove", _COUNTED, "            if self.largest.count_public:\n                return", "            if True:\n                return", _alone("CountedTask-large epsilon")),
    Mutant("theorem: the number of rows under add-remove", _THEOREM, "            if self.planned.count_public:\n                found", "            if True:\n                found", _alone("TheoremTask-declared n")),
    Mutant("tree: cells where something was found alone", _TREE, "noisy = [value + z for value, z in zip(exact, drawn, strict=True)]", "noisy = [value + z if value else 0 for value, z in zip(exact, drawn, strict=True)]", _alone("TreeTask-tree, gaussian, target")),
    Mutant("missing: patterns that are there alone", _MISSING, "counts = [value + z for value, z in zip(exact, laplace_noise(len(exact), scale), strict=True)]", "counts = [value + z if value else 0 for value, z in zip(exact, laplace_noise(len(exact), scale), strict=True)]", _alone("SynthesisTask-lp, NULLs")),
    Mutant("release: groups that are there alone", _REL, "noised = [] if noise is None else add_noise(drawn, noise)", "noised = [] if noise is None else [z if v else 0 for v, z in zip(drawn, add_noise(drawn, noise), strict=True)]", _alone("SelectTask-public keys")),
    # ---- bounding and clamps
    Mutant("emit: as many groups as count and one", _EMIT, "if not keys or (size is not None and size <= plan.groups):", "if not keys or (size is not None and size <= plan.groups + 1):", ("tests/compiler/test_sensitivity.py", "tests/compiler/test_emit_equals.py", LOSSES)),
    Mutant("emit: groups chosen without the salt", _EMIT, "f'CAST({salt} AS UBIGINT)'])}))", "'CAST(0 AS UBIGINT)'])}))", _T_CHOSEN),
    Mutant("emit: equal hashes in any order", _EMIT, """order = f"{draw}, {', '.join(keys)}\"""", "order = draw", _T_CHOSEN),
    Mutant("chosen rows: without the salt", _PRINT, "r.copy, CAST({salt} AS UBIGINT)))", "r.copy, CAST(0 AS UBIGINT)))", _T_CHOSEN),
    Mutant("printing: NULL rule not applied", _PRINT, "    if column.null_value is not None:\n        value", "    if False:\n        value", _alone("SelectTask-of rows, replaced")),
    Mutant("printing: the NULL rule before the clamp", _PRINT, 'value = f"COALESCE({value}, {print_literal(column.null_value, column.kind, parameters)})"', 'value = f"COALESCE(CAST({raw} AS {SQL_TYPES[column.kind]}), {print_literal(column.null_value, column.kind, parameters)})"', (f"{LOSSES}[of rows, replaced1]",)),
    Mutant("scan: one row more weighs whole", _SCAN, 'weight = f"CASE WHEN s.c <= {max_rows} THEN', 'weight = f"CASE WHEN s.c <= {max_rows} + 1 THEN', _T_SUMS),
    Mutant("scan: counted before rows are left out", _SCAN, "system.main.count_star() OVER (PARTITION BY s.{UNIT}) AS c FROM", "system.main.count(s.a0) FILTER (WHERE s.a0 > 0) OVER (PARTITION BY s.{UNIT}) AS c FROM", _T_SUMS),
    Mutant("sums: a row beyond 1", _DIRECT, "while basis.float_error() * 2.0**bits > 0.25:", "while basis.float_error() * 2.0**bits > 2.0**20:", ("tests/smooth/test_moments_sensitivity.py::test_the_grid_is_so_coarse_that_rounding_brings_every_summand_back",)),
    Mutant("grid: weights of units are rows", _GRID, "        half = 1 << (self.bits - 1)\n        return [(total + half) >> self.bits for total in totals]", "        half = 1 << (self.bits - 1)\n        return [(total + half) >> (self.bits - 1) for total in totals]", (f"{LOSSES}[declared n]",)),
    Mutant("wide: functions beyond 1", _SUMS_SQL, "scaled = f\"{_clamp(text)} * {number(2.0**bits)} + {number(0.5)}\"", "scaled = f\"2 * {text} * {number(2.0**bits)} + {number(0.5)}\"", ("tests/synthetic/wide/test_wide_features.py",)),
    Mutant("wide: all rows of a unit", _READING, "rows = print_chosen(rows, [quote(c.name) for c in columns], self.salt, 1)", "rows = print_chosen(rows, [quote(c.name) for c in columns], self.salt, 2)", (LOSSES, "tests/compiler/test_local_choice.py")),
    Mutant("wide: replace with units", _LAID, "if asked.neighbours is Neighbours.REPLACE and (table.unit_key is not None or table.filter is not None):", "if False:", ("tests/synthetic/wide/test_wide_task.py", "tests/synthetic/test_bad_tables.py")),
    Mutant("grouped: units of many rows", _GROUPED, "    if table.unit_key is not None:\n        raise ParameterError(\"P107\", \"per\"", "    if False:\n        raise ParameterError(\"P107\", \"per\"", _T_GROUPED),
    Mutant("grouped: rounding of one group", _GROUPED, "groups * spread * error) + groups", "spread * error) + 1", ("tests/smooth/test_grouped.py::test_errors_of_one_row_reach_every_group_and_are_in_the_bound",)),
    Mutant("grouped: count public for every group", _GROUPED, "single = replace(one, moments=moments_of_one, plan=plan, count_public=False, sensitivity=sensitivity)", "single = replace(one, moments=moments_of_one, plan=plan, count_public=one.count_public, sensitivity=sensitivity)", ("tests/smooth/test_grouped.py::test_a_public_number_of_rows_makes_no_groups_count_public",)),
    Mutant("smooth: the far end one unit further", _SMOOTH, "last_unit=window.units + 1,", "last_unit=window.units + 2,", _T_SMOOTH),
    Mutant("smooth: beta whatever delta", "duckdp/mechanisms/admissible_noise.py", "    return Fraction(low, _RESOLUTION)\n", "    return half\n", _T_SMOOTH),
    Mutant("smooth: positions beyond the data are the last", _SMOOTH, "  UNION ALL SELECT {top}, n, m + {steps} FROM rank),", "  ),", _T_SMOOTH),
    Mutant("smooth: a scale above the grid", "duckdp/mechanisms/admissible_noise.py", "return min(bound if bound > self.least else self.least, top)", "return bound if bound > self.least else self.least", (*_T_SMOOTH, "tests/privacy/test_draws.py")),
    # ---- purses
    Mutant("purse: shares are rounded up", _TERMS, "        return math.floor(whole * share)\n", "        return math.ceil(whole * share)\n", _T_PURSE),
    Mutant("purse: epsilon of the whole rho", _PURSE, "            return Fraction(cost, NANO)\n        return Fraction(math.isqrt(8 * cost * PICO), PICO)", "            return Fraction(cost, NANO)\n        return Fraction(math.isqrt(8 * self.cost(Fraction(1)) * PICO), PICO)", ("tests/privacy/test_losses.py::test_shares_of_every_purse_add_up_to_its_charge",)),
    Mutant("purse: delta free", _TERMS, "return Loss(epsilon_nano=self.epsilon_nano, delta_atto=self.delta_atto, rho_pico=rho)", "return Loss(epsilon_nano=self.epsilon_nano, rho_pico=rho)", _T_PURSE),
    Mutant("purse: what was stored costs nothing", _PURSE, "found, self.rows, self.spent = self.keep(drawn)", "found, self.rows, _ = self.keep(drawn)", ("tests/synthetic/wide/test_wide_release.py::test_a_stage_that_is_stored_is_paid_for",)),
    Mutant("best: every pick for the share of all", _BEST, "purse, share / picks, seen)", "purse, share, seen)", ("tests/synthetic/wide/test_wide_links.py::test_every_pick_costs_its_part",)),
    Mutant("best: the noisy maximum at the epsilon of bounded range", _BEST, "    if purse.gaussian:\n", "    if False:\n", ("tests/synthetic/wide/test_wide_links.py::test_every_pick_costs_its_part", "tests/privacy/test_losses.py::test_laws_that_are_met")),
    Mutant("wide: marginals free", _MOMENTS_TASK, "whole = links.epsilon_nano + self.marginal_nano + self.null_nano\n", "whole = links.epsilon_nano + self.null_nano\n", ("tests/synthetic/wide/test_wide_task.py::test_links_and_marginals_share_what_was_asked",)),
    Mutant("wide: links at the whole epsilon", _MOMENTS_TASK, "request = replace(whole, epsilon_nano=rest - part, counted=True)", "request = whole", ("tests/synthetic/wide/test_wide_task.py::test_links_and_marginals_share_what_was_asked",)),
    # ---- identities: equal texts, equal questions
    Mutant("identity: keys left out", _PLAN, '"keys": [[show(k.expr), digest_domain(k.domain), repr(k.other)] for k in self.query.keys],', '"keys": [],', _IDENTITIES),
    Mutant("identity: measures left out", _PLAN, '                "measures": [m.describe() for m in self.measures],\n', '                "measures": [],\n', _IDENTITIES),
    Mutant("identity: bounds left out", _CATALOG, 'if k not in ("unit", "constraints", "checked")})', 'if k not in ("unit", "constraints", "checked", "columns")})', (*_IDENTITIES, "tests/test_sources.py", "tests/test_session.py")),
    Mutant("identity: units that are nobody left out", _CATALOG, 'if k not in ("unit", "constraints", "checked")})', 'if k not in ("unit", "constraints", "checked", "null_units")})', (*_IDENTITIES, "tests/test_null_units.py")),
    Mutant("quantile: the column out of the identity", _QUANT, "parts = [dump_table(self.table), self.column.name, show(self.where)", "parts = [dump_table(self.table), show(self.where)", _IDENTITIES),
    Mutant("quantile: which one out of the identity", _QUANT, "show(self.where), str(q.quantile), self.neighbours.value]", "show(self.where), self.neighbours.value]", _IDENTITIES),
    Mutant("quantile: epsilon out of the identity", _QUANT, "*parts, q.epsilon_nano, q.delta_atto, q.grid_cells])", "*parts, q.delta_atto, q.grid_cells])", _IDENTITIES),
    Mutant("quantile: delta out of the identity", _QUANT, "*parts, q.epsilon_nano, q.delta_atto, q.grid_cells])", "*parts, q.epsilon_nano, q.grid_cells])", _IDENTITIES),
    Mutant("bounds: WHERE out of the identity", _BOUNDS, "self.column.name, show(self.where), self.neighbours.value, self.epsilon_nano]", "self.column.name, self.neighbours.value, self.epsilon_nano]", _IDENTITIES),
    Mutant("bounds: the column out of the identity", _BOUNDS, "parts = [dump_table(self.table), self.column.name, show(self.where)", "parts = [dump_table(self.table), show(self.where)", _IDENTITIES),
    Mutant("structure: constraints out of the identity", _WIDE, '"constraints": [str(c) for c in self.kept]}', '"constraints": []}', (f"{_T_STRUCTURE}::test_questions_differ_where_their_rows_do",)),
    Mutant("structure: calendars out of the identity", _WIDE, "            **self._structure(),\n", "", (f"{_T_STRUCTURE}::test_questions_differ_where_their_rows_do",)),
    Mutant("structure: one row at its gap below", _MENDING, "np.maximum(own.numbers, least)", "own.numbers", (f"{_T_STRUCTURE}::test_any_rows_are_mended_so_that_all_constraints_hold",)),
    Mutant("structure: a gap below nothing", _DERIVED, "system.main.greatest({away}, {number(0)})", "({away})", (f"{_T_STRUCTURE}::test_sql_is_total",)),
    Mutant("synthetic: rows out of the identity", _SYNTHETIC, "json.dumps([KIND, self.summary.canonical, self.rows, part, *kept])", "json.dumps([KIND, self.summary.canonical, part, *kept])", _IDENTITIES),
    Mutant("synthetic: NULLs out of the identity", _SYNTHETIC, "json.dumps([KIND, self.summary.canonical, self.rows, part, *kept])", "json.dumps([KIND, self.summary.canonical, self.rows, *kept])", _IDENTITIES),
    Mutant("wide: columns out of the identity", _WIDE, '            "declaration": sha256(dump_table(self.table).encode()).hexdigest(),\n            "columns": [c.name for c in self.columns],\n', '            "declaration": sha256(dump_table(self.table).encode()).hexdigest(),\n', _IDENTITIES),
    Mutant("wide: target out of the identity", _WIDE, '            "target": r.target,\n', "", _IDENTITIES),
    Mutant("wide: method out of the identity", _WIDE, '            "columns": [c.name for c in self.columns],\n            "method": self.method,\n', '            "columns": [c.name for c in self.columns],\n', _IDENTITIES),
    # ---- salts
    Mutant("salt: one for all ledgers", _OPENING, "begin(connection, os.urandom(16).hex(), os.urandom(16), anchors)", "begin(connection, os.urandom(16).hex(), bytes(16), anchors)", ("tests/test_ledger.py", "tests/test_session.py")),
    Mutant("salt: not the ledger's", _DATASET, 'return int.from_bytes(self.ledger.salt[:8], "big")', "return 0", ("tests/test_session.py", "tests/test_ledger.py")),
    # ---- budgets
    Mutant("rest: delta is never used up", _BUDGETS, 'row["secondary_limit"] - row["secondary_spent"]', 'row["secondary_limit"]', ("tests/test_ledger.py::test_what_is_said_to_be_left_is_the_limit_less_every_charge", "tests/test_ledger_anchors.py::test_a_backup_takes_the_place_and_what_was_left_is_charged_as_lost")),
    Mutant("rest: epsilon is never used up", _BUDGETS, 'return row["primary_limit"] - row["primary_spent"],', 'return row["primary_limit"],', ("tests/test_ledger.py::test_what_is_said_to_be_left_is_the_limit_less_every_charge", "tests/test_ledger_anchors.py::test_a_backup_takes_the_place_and_what_was_left_is_charged_as_lost")),
    Mutant("budget: another relation after charges", _BUDGETS, 'if relation != (old["neighbours"], old["accountant"]) and started(tx):', "if False:", _T_LEDGER),
    Mutant("budget: caps keep the old accountant's units", _BUDGETS, '    if accountant.value == old["accountant"]:\n', "    if True:\n", _T_LEDGER),
    Mutant("budget: replace over keyed tables", "duckdp/faces/budgeting.py", "if relation is Neighbours.REPLACE and any(t.unit_key is not None for t in self.tables.values()):", "if False:", ("tests/test_units.py::test_rows_are_protected_by_rows_alone",)),
    Mutant("charge: a negative loss gives back", _LTYPES, "not 0 <= units <= MAX_INTEGER:", "not -MAX_INTEGER <= units <= MAX_INTEGER:", ("tests/test_ledger.py", "tests/test_ledger_attacks.py")),
    Mutant("types: delta of 1", _TYPES, "if units is None or not 0 <= units < ATTO:", "if units is None or not 0 <= units <= ATTO:", ("tests/core/test_accountant.py::test_delta_is_a_share_below_one",)),
    Mutant("types: an epsilon of 0", _TYPES, "if units is None or not 1_000 <= units", "if units is None or not 0 <= units", ("tests/core/test_types.py",)),
    Mutant("attempts: as many as you like", _CHARGES, "MAX_ATTEMPTS = 3", "MAX_ATTEMPTS = 3000", ("tests/adversary/test_planted_secrets.py::test_three_failures_are_final", "tests/test_ledger_model.py")),
    Mutant("attempts: one that was overtaken ends the newer", _CHARGES, 'if (row["state"], row["attempt"]) == ("open", charge.attempt):', 'if row["state"] == "open":', _T_LEDGER),
    Mutant("charges: everybody's", "duckdp/ledger/listing.py", '"analyst = ? AND"', '"? IS NOT NULL AND"', ("tests/test_ledger.py", "tests/adversary/test_identity.py")),
    Mutant("release: of anybody by its charge", _CHARGES, '    if row is None or (row["analyst"], row["key"], _loss(row)) != (charge.analyst, charge.key, charge.loss):\n', "    if row is None:\n", _T_LEDGER),
    Mutant("source: another one keeps the version", _OBJECTS, '    version = int(dataset["data_version"]) + 1\n', '    version = max(1, int(dataset["data_version"]))\n', _T_SOURCE),
    Mutant("declarations: a change keeps the version", _OBJECTS, 'version = int(tx.dataset()["catalog_version"]) + 1', 'version = max(1, int(tx.dataset()["catalog_version"]))', (*_T_OWNER, *_T_LEDGER)),
    Mutant("declarations: charged is forgotten", _OBJECTS, 'tx.change("catalog", row, ("version",), charged=1)', "pass", ("tests/test_units.py", "tests/test_ledger.py")),
    Mutant("objects: shared ones first", _OBJECTS, "in (*own, *others)]", "in (*others, *own)]", (*_T_LEDGER, "tests/synthetic/test_again.py", "tests/adversary/test_identity.py")),
    Mutant("objects: a freed name keeps its readers", _OBJECTS, '    tx.later("DELETE FROM share WHERE analyst = ? AND name = ?", analyst, name)\n', "", (*_T_LEDGER, "tests/synthetic/test_again.py")),
    Mutant("store: an older file between two writes", _STORE, "    place.anchors.require_newest(tx, held)\n", "", ("tests/test_ledger_attacks.py::test_an_anchor_ahead_is_noticed_at_the_next_charge",)),
    Mutant("opening: other tables and triggers", _OPENING, "    if tx.is_altered():\n", "    if False:\n", ("tests/test_ledger_attacks.py::test_tables_that_were_altered_are_refused_at_the_opening",)),
    Mutant("opening: the chain is believed", _OPENING, "        chain.check_recent(tx)\n", "", ("tests/test_ledger_attacks.py",)),
    # ---- what else leaks
    Mutant("engine: the source's own errors", _ENGINE, """failed = "E102" if stopped else "E104" if ran_out(error) else "E101\"""", "raise", _T_SECRETS),
    Mutant("front: what was withheld hangs on the error", _GUARDED, "            finally:  # a traceback, or whoever holds the error, would show what was withheld\n                found.__context__ = None", "            finally:  # a traceback, or whoever holds the error, would show what was withheld\n                pass", _T_FRONT),
    Mutant("front: files of the machine", _FRONT, '"SET enable_external_access = false", ', "", _T_FRONT),
    Mutant("front: extensions load themselves", _FRONT, '    "autoload_known_extensions": "false",\n    "autoinstall_known_extensions": "false",\n', "", _T_FRONT),
    Mutant("sessions: the same for other analysts", _LOOKUPS, "return self._data is other._data and self.analyst == other.analyst", "return self._data is other._data", ("tests/test_register.py",)),
    Mutant("sessions: the same for other curators", _LOOKUPS, "return self._data is other._data and self.analyst == other.analyst", "return self.analyst == other.analyst", ("tests/test_register.py",)),
    Mutant("session: tables without a grant", _LOOKUPS, "ledger.state_for(self.analyst))", "ledger.state())", ("tests/test_grants.py", "tests/adversary/test_identity.py")),
    Mutant("refresh: answers go on meanwhile", _DATASET, '        self._fingerprint = ""  # nothing', '        pass  # nothing', _T_SOURCE),
    Mutant("owner: exact looks are not noted", _OWNER, "    note_look(curator.ledger, declared.name, [c.name for c in declared.columns])\n", "", ("tests/test_suggestions.py", "tests/test_owner.py", "tests/test_bounds_functions.py", "tests/cli/test_commands.py")),
)
