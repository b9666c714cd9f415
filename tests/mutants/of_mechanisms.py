"""Faults in accountants, calibration, noise, sensitivities: a charge that is less than what leaves."""

from __future__ import annotations

from tests.mutants.mutant import LOSSES, SHARES, Mutant

_ACC, _ADD, _MEA = "duckdp/core/accountant.py", "duckdp/mechanisms/additive.py", "duckdp/compiler/measures.py"
_CUBE, _SMOOTH = "duckdp/mechanisms/cube.py", "duckdp/mechanisms/smooth_sensitivity.py"
_ADMISSIBLE = "duckdp/mechanisms/admissible_noise.py"
_THRESHOLD, _NOISE = "duckdp/mechanisms/threshold.py", "duckdp/core/noise.py"
_BASIS, _SNOISE, _SHARES = "duckdp/smooth/basis.py", "duckdp/smooth/sum_noise.py", "duckdp/smooth/shares.py"
_MOMENTS, _COUNTED = "duckdp/smooth/sums/moments.py", "duckdp/smooth/buy/counted.py"
_PURSE, _TREE, _SELECT = (
    "duckdp/synthetic/unit/buy/purse.py",
    "duckdp/synthetic/tree/buy/counts.py",
    "duckdp/mechanisms/exponential.py",
)
_GROW = "duckdp/synthetic/tree/buy/grow.py"
_TABLES = "duckdp/synthetic/tree/contingency.py"
_NULLS = "duckdp/synthetic/tree/buy/null_counts.py"
_T_NULLS = ("tests/synthetic/wide/test_wide_null_counts.py",)
_NORMED, _T_NORMED = "duckdp/synthetic/unit/normed.py", ("tests/synthetic/wide/test_wide_normed.py",)
_T_ACC, _T_MEA = ("tests/core/test_accountant.py",), ("tests/compiler/test_sensitivity.py",)
_T_PURSE = (
    *(
        f"tests/synthetic/wide/test_wide_release.py::{name}"
        for name in (
            "test_a_purse_is_never_overdrawn",
            "test_no_row_moves_a_sum_further_than_the_sensitivity",
            "test_the_count_is_noised_when_rows_are_added_or_removed",
            "test_a_count_of_its_own",
        )
    ),
    LOSSES,
)
_T_TREE = (LOSSES, "tests/synthetic/wide/test_wide_tree_private.py")
_T_SUMS = ("tests/smooth/test_moments_sensitivity.py", LOSSES, "tests/smooth/test_smooth_basis.py")
_T_STATED = (f"{_T_SUMS[0]}::test_norms_bound_all_that_a_path_may_give_by_what_it_states",)
_T_SMOOTH = ("tests/mechanisms/test_smooth_sensitivity.py",)
_T_SPLIT = (SHARES,)

_T_THRESHOLD = tuple(
    f"tests/privacy/test_threshold.py::{name}"
    for name in ("test_threshold_by_exact_summation", "test_a_key_is_shown_from_tau_on")
)

_T_ROW = ("tests/compiler/test_sensitivity.py::test_a_row", *_T_MEA)

# fmt: off
MECHANISMS: tuple[Mutant, ...] = (
    # ---- accountants
    Mutant("rho_for: half the logarithm", _ACC, "rest >= 0 and 4 * rho_pico", "rest >= 0 and 2 * rho_pico", _T_ACC),
    Mutant("pure_rho: rounds down", _ACC, "-(-(epsilon_nano**2) * PICO // (2 * NANO**2))", "epsilon_nano**2 * PICO // (2 * NANO**2)", _T_ACC),
    Mutant("pure_rho: half", _ACC, "PICO // (2 * NANO**2))", "PICO // (4 * NANO**2))", _T_ACC),
    Mutant("zcdp limits: delta spent twice", _ACC, "return rho_for(epsilon_nano, half), delta_atto - half", "return rho_for(epsilon_nano, half), delta_atto", _T_ACC),
    Mutant("zcdp limits: rho at the whole delta", _ACC, "return rho_for(epsilon_nano, half), delta_atto - half", "return rho_for(epsilon_nano, delta_atto), delta_atto - half", _T_ACC),
    Mutant("cost: zcdp delta free", _ACC, "return loss.rho_pico, loss.delta_zcdp_atto", "return loss.rho_pico, 0", _T_ACC),
    Mutant("cost: basic delta free", _ACC, "        return loss.epsilon_nano, loss.delta_atto\n", "        return loss.epsilon_nano, 0\n", _T_ACC),
    Mutant("cost: zcdp epsilon without rho is free", _ACC, "if loss.epsilon_nano and not loss.rho_pico:", "if False:", _T_ACC),
    Mutant("how_many: the wider of the limits", _ACC, "return min((left // each", "return max((left // each", _T_ACC),
    Mutant("how_many: overdrawn fits", _ACC, "    if min(remaining) < 0:", "    if max(remaining) < 0:", _T_ACC),
    Mutant("epsilon_for: half the root", _ACC, "square = 4 * rho_pico", "square = 1 * rho_pico", _T_ACC),
    Mutant("log of 1/delta: halved", _ACC, "return int(log.scaleb(_LOG_DIGITS, context)) + 1", "return int(log.scaleb(_LOG_DIGITS, context)) // 2", _T_ACC),
    Mutant("accountant: negative losses", _ACC, "    if min(units) < 0:\n        raise InternalError(\"a privacy loss", "    if False:\n        raise InternalError(\"a privacy loss", _T_ACC),
    # ---- calibration of several measures
    Mutant("laplace: every measure gets all", _ADD, "epsilon_nano * part // sum(parts) for part in parts]", "epsilon_nano for part in parts]", _T_SPLIT),
    Mutant("gaussian: every measure gets all", _ADD, "[rho * part // sum(parts) for part in parts]", "[rho for part in parts]", _T_SPLIT),
    Mutant("gaussian: the threshold's delta again", _ADD, "rho = rho_for(epsilon_nano, delta_atto - threshold_delta_atto)", "rho = rho_for(epsilon_nano, delta_atto)", _T_SPLIT),
    Mutant("laplace: rho of the charge halved", _ADD, "        rho = pure_rho(epsilon_nano)\n", "        rho = pure_rho(epsilon_nano) // 2\n", _T_SPLIT),
    Mutant("laplace: the threshold's delta free", _ADD, "        loss_delta = threshold_delta_atto\n", "        loss_delta = 0\n", _T_SPLIT),
    Mutant("gaussian: delta free", _ADD, "        loss_delta = delta_atto\n", "        loss_delta = threshold_delta_atto\n", _T_SPLIT),
    Mutant("laplace scale from l2", _ADD, "laplace_scale(Fraction(share, NANO), sensitivity.l1)", "laplace_scale(Fraction(share, NANO), max(1, int(sensitivity.l2_squared**0.5)))", _T_SPLIT),
    Mutant("gaussian scale from linf", _ADD, "gaussian_scale(Fraction(share, PICO), sensitivity.l2_squared)", "gaussian_scale(Fraction(share, PICO), sensitivity.linf**2)", _T_SPLIT),
    Mutant("zcdp: the threshold's delta left out", _ADD, "delta_zcdp_atto=threshold_delta_atto", "delta_zcdp_atto=0", _T_SPLIT),
    # ---- scales
    Mutant("laplace scale below", _NOISE, "near if near == math.inf or Fraction(near) >= exact else math.nextafter(near, math.inf)", "math.nextafter(near, 0)", ("tests/core/test_noise.py",)),
    Mutant("scale: sampler's own map not asked", _NOISE, "        if admitted(scale):\n", "        if True:\n", ("tests/core/test_noise.py",)),
    # ---- threshold
    Mutant("threshold: groups ignored", _THRESHOLD, "- math.log(ATTO) - math.log(groups)", "- math.log(ATTO)", _T_THRESHOLD),
    Mutant("threshold: one lower", _THRESHOLD, "return 1 + max(1, math.ceil(t)) + 1", "return max(1, math.ceil(t))", _T_THRESHOLD),
    Mutant("threshold: half the gaussian tail", _THRESHOLD, "return -(t * t) / (2 * scale * scale)", "return -(t * t) / (scale * scale)", _T_THRESHOLD),
    Mutant("threshold: no scale", _THRESHOLD, "t = noise.scale * (-log_share", "t = (-log_share", _T_THRESHOLD),
    # ---- sensitivities of a SELECT
    Mutant("replace sum: span without 0", _MEA, "high - low if whole else max(high, 0) - min(low, 0)", "high - low", (LOSSES,)),
    Mutant("replace sum: one group of two", _MEA, "return Sensitivity(l1=2 * q, l2_squared=max(2 * q * q, span**2)", "return Sensitivity(l1=q, l2_squared=max(q * q, span**2)", _T_ROW),
    Mutant("replace sum: l2 without the span", _MEA, "l2_squared=max(2 * q * q, span**2)", "l2_squared=2 * q * q", _T_ROW),
    Mutant("replace cells: one group of two", _MEA, "return replace(measure, sensitivity=Sensitivity(l1=2 * d, l2_squared=2 * d * d, linf=d))", "return replace(measure, sensitivity=Sensitivity(l1=d, l2_squared=d * d, linf=d))", _T_ROW),
    Mutant("replace cells: whole, degree 2 as 1", _MEA, "l1 = measure.largest * min(measure.degree, 2)", "l1 = measure.largest * min(measure.degree, 1)", _T_ROW),
    Mutant("add-remove: groups free", _MEA, "Sensitivity(l1=groups * unit, l2_squared=groups * unit**2, linf=unit)", "Sensitivity(l1=unit, l2_squared=unit**2, linf=unit)", _T_MEA),
    Mutant("add-remove: l2 of groups free", _MEA, "l2_squared=groups * unit**2, linf=unit)", "l2_squared=unit**2, linf=unit)", _T_MEA),
    Mutant("add-remove: a unit is one row", _MEA, 'rows = 1 if table.unit_key is None or measure.kind == "units" else rows_that_count(measure, table)', "rows = 1", _T_MEA),
    Mutant("whole although nullable", _MEA, "whole = everyone and measure.filter is None and not nullable", "whole = everyone and measure.filter is None", (f"{LOSSES}[replaced, NULLs in a sum]",)),
    Mutant("whole although filtered", _MEA, "whole = everyone and measure.filter is None and not nullable", "whole = everyone and not nullable", ("tests/privacy/test_noise_alone.py::test_what_leaves_follows_the_data_through_noise_alone[SelectTask-some rows of all]",)),
    Mutant("sum: largest by its upper end", _MEA, "largest=max(abs(low), abs(high), 1))", "largest=max(high, 1))", _T_MEA),
    Mutant("count rides on a nullable argument", _MEA, "whole = self.argument is None or self.null_cell or not facts(self.argument).nullable", "whole = True", ("tests/compiler/test_emit_equals.py::test_aggregates",)),
    Mutant("range: no room for noise", _MEA, "room = math.floor(RANGE_BITS - math.log2(row_cap + 300 * contribution / epsilon))", "room = math.floor(RANGE_BITS + 8 - math.log2(row_cap + 300 * contribution / epsilon))", ("tests/compiler/test_sensitivity.py::test_sums_and_their_noise_keep_62_bits",)),
    # ---- cube, smooth sensitivity
    Mutant("cube: rate doubled", _CUBE, "rate = Fraction(epsilon) / linf", "rate = Fraction(2 * epsilon) / linf", ("tests/mechanisms/test_cube.py", LOSSES)),
    Mutant("cube: R geometrics", _CUBE, "for _ in range(size + 1))", "for _ in range(size))", ("tests/mechanisms/test_cube.py",)),
    Mutant("cube: no rejection", _CUBE, "        if all(uniform_below", "        if True or all(uniform_below", ("tests/mechanisms/test_cube.py",)),
    Mutant("cube: side one short", _CUBE, "uniform_below(2 * half + 1) - half", "uniform_below(2 * half) - half", ("tests/mechanisms/test_cube.py",)),
    Mutant("smooth: alpha doubled", _ADMISSIBLE, "* 4 * degrees / (degrees + 1) ** 2  #", "* 16 * degrees / (degrees + 1) ** 2  #", _T_SMOOTH),
    Mutant("smooth: beta doubled", _ADMISSIBLE, "beta * (degrees + 1) / 2) ** 2)", "beta * (degrees + 1) / 4) ** 2)", _T_SMOOTH),
    Mutant("smooth: laplace alpha doubled", _ADMISSIBLE, "alpha=epsilon / 2, beta=_largest", "alpha=epsilon, beta=_largest", _T_SMOOTH),
    Mutant("smooth: no float margin", _ADMISSIBLE, "_FLOAT_MARGIN = Fraction(1, 2**40)", "_FLOAT_MARGIN = Fraction(1, 2**90)", (f"{_T_SMOOTH[0]}::test_the_rate_that_is_printed_leaves_room_for_floats",)),
    Mutant("smooth: a unit is one row", _SMOOTH, "steps, block = (window.units + 1) * u,", "steps, block = (window.units + 1),", _T_SMOOTH),
    Mutant("smooth: delta of zcdp free", _SMOOTH, "delta_zcdp_atto=self.delta_atto", "delta_zcdp_atto=0", _T_SMOOTH),
    # ---- summaries
    Mutant("basis: add-remove l1 of one", _BASIS, "return Sensitivity(l1=unit * size, l2_squared=unit**2 * size, linf=unit)", "return Sensitivity(l1=unit, l2_squared=unit**2 * size, linf=unit)", _T_SUMS),
    Mutant("basis: add-remove l2 of one", _BASIS, "return Sensitivity(l1=unit * size, l2_squared=unit**2 * size, linf=unit)", "return Sensitivity(l1=unit * size, l2_squared=unit**2, linf=unit)", _T_SUMS),
    Mutant("basis: replace linf of one", _BASIS, "return Sensitivity(l1=l1, l2_squared=square, linf=2 * unit)", "return Sensitivity(l1=l1, l2_squared=square, linf=unit)", _T_SUMS),
    Mutant("basis: rounding left out of l1", _BASIS, "certified = unit * (self._replace_l1() + 2 * size * eta) + size", "certified = unit * (self._replace_l1() + 2 * size * eta)", ("tests/smooth/test_smooth_basis.py",)),
    Mutant("basis: the paper's t^d", _BASIS, "l1 = min(l1, max(math.ceil(certified), unit * size))", "l1 = unit * size", _T_SUMS),
    Mutant("basis: l2 of the set, not its hull", _BASIS, "math.ceil(ratio * 2 * math.prod(self.degrees) * 2**20)", "math.ceil(ratio * math.prod(self.degrees) * 2**20)", _T_SUMS),
    Mutant("basis: certified for units of many rows", _BASIS, "        if max_rows == 1:\n", "        if True:\n", ("tests/smooth/test_smooth_basis.py",)),
    Mutant("moments: excess forgotten", _MOMENTS, "above = math.ceil(unit * Fraction(self.excess))", "above = 0", _T_SUMS),
    Mutant("moments: excess once under replace", _MOMENTS, "            above *= 2\n", "            above *= 1\n", _T_STATED),
    Mutant("moments: row error forgotten", _MOMENTS, "wide = max(above, math.ceil(2 * unit * max(Fraction(0), Fraction(self.row_error) - known)))", "wide = above", _T_STATED),
    Mutant("moments: a unit is one row", _MOMENTS, "return 1 if table.unit_key is None else table.max_rows", "return 1", _T_SUMS),
    Mutant("summary noise: cube at twice epsilon", _SNOISE, "rates = [cube_rate(epsilon, linf, size)", "rates = [cube_rate(2 * epsilon, linf, size)", ("tests/smooth/test_shares.py", LOSSES)),
    Mutant("summary noise: gaussian group of one", _SNOISE, "min(sensitivity.l2_squared, size * sensitivity.linf**2)", "sensitivity.linf**2", ("tests/smooth/test_shares.py", LOSSES)),
    Mutant("summary noise: laplace from linf", _SNOISE, "laplace_scale(epsilon, sensitivity.l1)", "laplace_scale(epsilon, sensitivity.linf)", ("tests/smooth/test_shares.py", LOSSES)),
    Mutant("shares: more than all", _SHARES, "/ share.sum() * _STEPS * (1 - 1e-9))).astype(np.int64).tolist()\n    return tuple(whole * Fraction(part, max(_STEPS, sum(parts))) for part in parts)", "/ share.max() * _STEPS)).astype(np.int64).tolist()\n    return tuple(whole * Fraction(part, _STEPS) for part in parts)", ("tests/smooth/test_shares.py",)),
    Mutant("counted: the count is free", _COUNTED, "return count, max(1, whole - count)", "return count, whole", ("tests/smooth/test_counted.py", LOSSES)),
    Mutant("counted: rho of the count is free", _COUNTED, "rho_pico=pure_rho(count) + rho_for(rest, whole.delta_atto)", "rho_pico=rho_for(rest, whole.delta_atto)", ("tests/smooth/test_counted.py", LOSSES)),
    # ---- wide tables
    Mutant("purse: choices at sqrt(16 rho)", _PURSE, "math.isqrt(8 * cost * PICO)", "math.isqrt(16 * cost * PICO)", ("tests/privacy/test_losses.py::test_shares_of_every_purse_add_up_to_its_charge",)),
    Mutant("purse: stages over the whole", _PURSE, "if share <= 0 or self.spent + share > 1:", "if share <= 0:", _T_PURSE),
    Mutant("purse: nothing is spent", _PURSE, "        self.spent += share\n", "", _T_PURSE),
    Mutant("purse: replace moves once", _PURSE, "move = unit * (2 if neighbours is Neighbours.REPLACE else 1)", "move = unit", ("tests/privacy/test_losses.py::test_shares_of_every_purse_add_up_to_its_charge", *_T_PURSE)),
    Mutant("purse: l1 of one", _PURSE, "return Sensitivity(l1=size * move, l2_squared=size * move**2, linf=move)", "return Sensitivity(l1=move, l2_squared=size * move**2, linf=move)", ("tests/privacy/test_losses.py::test_shares_of_every_purse_add_up_to_its_charge", *_T_PURSE)),
    Mutant("purse: l2 of one", _PURSE, "return Sensitivity(l1=size * move, l2_squared=size * move**2, linf=move)", "return Sensitivity(l1=size * move, l2_squared=move**2, linf=move)", ("tests/privacy/test_losses.py::test_shares_of_every_purse_add_up_to_its_charge", *_T_PURSE)),
    Mutant("purse: the count is free", _PURSE, "laplace_scale(Fraction(self.take(share), NANO), 1)", "laplace_scale(Fraction(self.cost(share), NANO), 1)", _T_PURSE),
    Mutant("purse: the count is not a function", _PURSE, "vector = [found * unit, *exact] if counting else list(exact)", "vector = [found * unit, *exact]; change = sensitivity(len(exact), unit, self.neighbours); counting = counting", _T_PURSE),
    Mutant("tree: choices at twice their epsilon", _TREE, "return purse.take_epsilon(share)", "return 2 * purse.take_epsilon(share)", ("tests/privacy/test_losses.py::test_shares_of_every_purse_add_up_to_its_charge",)),
    Mutant("tree: replace moves once", _TABLES, "    move = 2 if neighbours is Neighbours.REPLACE else 1\n    return Sensitivity", "    move = 1\n    return Sensitivity", ("tests/privacy/test_losses.py::test_shares_of_every_purse_add_up_to_its_charge",)),
    Mutant("tree: one table of many", _TABLES, "return Sensitivity(l1=tables * move, l2_squared=tables * move, linf=1)", "return Sensitivity(l1=move, l2_squared=move, linf=1)", ("tests/privacy/test_losses.py::test_shares_of_every_purse_add_up_to_its_charge",)),
    Mutant("tree: scores move once under replace", _TREE, "return GRID * (2 if neighbours is Neighbours.REPLACE else 1)", "return GRID", ("tests/synthetic/wide/test_wide_tree_private.py::test_sensitivities_are_those_of_all_small_tables",)),
    Mutant("tree: tables are free", _TREE, "purse.take(share)\n    exact", "purse.cost(share)\n    exact", ("tests/synthetic/wide/test_wide_tree_private.py::test_every_public_cell_is_noised_whatever_the_rows",)),
    Mutant("tree: choices are free", _TREE, "    return purse.take_epsilon(share)", "    return type(purse).on(purse).take_epsilon(share)", _T_TREE),
    Mutant("tree: a stage of before by the plan of now", _GROW, "begun_by([tree.plan, *others], name, purse.spent)", "tree.plan", ("tests/synthetic/wide/test_wide_begun.py",)),
    Mutant("tree: a plan by its share alone", "duckdp/synthetic/tree/buy/resumed.py", "if plan.ones == spent and named:", "if plan.ones == spent:", ("tests/synthetic/wide/test_wide_begun.py",)),
    Mutant("tree: another process has another prior", "duckdp/synthetic/unit/prior_points.py", "hashlib.sha256(name.encode()).digest()[:8]", "__import__(\"os\").urandom(8)", ("tests/synthetic/wide/test_wide_begun.py::test_what_is_stored_is_read_alike_in_another_process",)),
    Mutant("tree: values of rows without one in no cell of their own", "duckdp/synthetic/tree/buy/value_counts.py", "none = f\"CAST({count_cells(binning, modulus) - 1} AS INTEGER)\"", "none = f\"CAST({count_cells(binning, modulus) - 2} AS INTEGER)\"", ("tests/synthetic/wide/test_wide_values.py::test_sql_gives_the_cells_and_a_row_has_one",)),
    Mutant("tree: values are planned and not bought", "duckdp/synthetic/tree/buy/grow.py", "if plan.values and reads.values is not None:", "if reads.values is not None and plan.moduli and plan.values > 1:", ("tests/synthetic/wide/test_wide_values.py::test_values_are_those_of_the_data",)),
    Mutant("tree: hidden NULLs in no bar", "duckdp/synthetic/tree/make/bars.py", "    return max(0.0, tree.null_shares[column]) + _ONE_SIDE * tree.deviation / tree.rows", "    return 0.0", ("tests/synthetic/wide/test_wide_bars_hidden.py::test_a_few_do_and_did_not",)),
    Mutant("tree: means of scales that are recomputed", "duckdp/synthetic/tree/buy/resumed.py", "return found if isinstance(found, tuple) else (found, dict(scales))", "return (found[0] if isinstance(found, tuple) else found), dict(scales)", ("tests/synthetic/wide/test_wide_begun.py::test_the_scales_of_means_are_those_they_were_bought_by",)),
    Mutant("tree: noise that the question does not say", "duckdp/synthetic/tree/buy/__init__.py", '**({} if noise is None else {"gaussian": noise})', "**({} if noise is None else {})", ("tests/synthetic/wide/test_wide_noise.py::test_the_question_says_its_noise_where_it_is_another",)),
    Mutant("tree: noise as at the whole charge", "duckdp/synthetic/tree/spending.py", "predicted_deviation(columns, _STAGE, terms)", "predicted_deviation(columns, 1.0, terms)", ("tests/synthetic/wide/test_wide_noise.py",)),
    Mutant("tree: what was begun with other noise is forgotten", "duckdp/functions/synthetic.py", "if old.canonical != task.canonical and (calendar or not old.kept):", "if old.canonical != task.canonical and not calendar and not old.kept:", ("tests/synthetic/wide/test_wide_noise.py::test_what_was_begun_with_other_noise_ends_with_it",)),
    Mutant("tree: what a stored stage cost is not looked at", "duckdp/synthetic/tree/buy/resumed.py", "if not fits(found) or purse.spent != before + share:", "if not fits(found):", ("tests/synthetic/wide/test_wide_begun.py",)),
    Mutant("purse: normed products for half of the bound", _PURSE, "laplace_scale(Fraction(cost, NANO), move * given.longest)", "laplace_scale(Fraction(cost, NANO), move * given.longest // 2)", ("tests/privacy/test_losses.py::test_shares_of_every_purse_add_up_to_its_charge",)),
    Mutant("purse: normed products, replace moves once", _PURSE, "cost, move = self.take(share), 2 if self.neighbours is Neighbours.REPLACE else 1", "cost, move = self.take(share), 1", ("tests/privacy/test_losses.py::test_shares_of_every_purse_add_up_to_its_charge",)),
    Mutant("purse: the other norm of products", _PURSE, "if given.squared != self.gaussian:", "if False:", _T_NORMED),
    Mutant("normed products: rows as they are", _NORMED, "return np.asarray(self.bound / np.maximum(np.maximum(self.norms(g), self.bound), _LEAST))", "return np.ones(len(g))", _T_NORMED),
    Mutant("normed products: long rows are added, in memory", _NORMED, "        whole[size > self.longest] = 0\n", "", _T_NORMED),
    Mutant("normed products: long rows are added, in SQL", "duckdp/synthetic/unit/buy/sums_sql.py", "CASE WHEN s.dp_n <= {given.longest} THEN CAST(s.dp_p{n} AS HUGEINT) END", "CAST(s.dp_p{n} AS HUGEINT)", _T_NORMED),
    Mutant("normed functions: their norm is that of one", _NORMED, "total = in_order(g**2 if self.squared else np.abs(g), [1.0] * g.shape[1])", "total = in_order(g**2 if self.squared else np.abs(g), [1.0] + [0.0] * (g.shape[1] - 1))", _T_NORMED),
    Mutant("nulls: rows of any norm", _NULLS, "return math.isqrt(unit**2 // together) if squared else unit // together", "return unit", _T_NULLS),
    Mutant("nulls: l2 as l1", _NULLS, "math.isqrt(unit**2 // together)", "unit * 7 // (4 + 3 * together)", _T_NULLS),
    Mutant("nulls: l2 as if a row had half", _NULLS, "math.isqrt(unit**2 // together)", "math.isqrt(2 * unit**2 // together)", _T_NULLS),
    Mutant("nulls: REPLACE as one row", _NULLS, "2 if purse.neighbours is Neighbours.REPLACE else 1", "1", _T_NULLS),
    Mutant("nulls: together without this column", _NULLS, "minlength=columns + 1)[1:]", "minlength=columns + 1)[:-1]", _T_NULLS),
    Mutant("nulls: a share that is not taken", _NULLS, "purse.take(share), 2 if", "purse.cost(share), 2 if", _T_NULLS),
    Mutant("nulls: the threshold of one noise", "duckdp/synthetic/unit/completeness.py", "math.log((2 + found) / 4 / chance)", "math.log(1 / 2 / chance)", _T_NULLS),
    Mutant("nulls: each of two tests with the whole chance", "duckdp/synthetic/tree/doubtful.py", "both_doubt(TESTS * columns,", "both_doubt(columns,", _T_NULLS),
    Mutant("nulls: planned and not paid", "duckdp/synthetic/tree/spending.py", "self.labels + self.values + self.nulls", "self.labels + self.values", _T_NULLS),
    Mutant("tree: means of scaled rows as they are", "duckdp/synthetic/tree/buy/averages.py", "m + cuts[i]", "m", ("tests/synthetic/wide/test_wide_averages.py",)),
    Mutant("tree: bars of rows as the tree makes them", "duckdp/synthetic/tree/buy/missed.py", "max(lost[0] - added, lost[1] + added)", "abs(added) / 2", ("tests/synthetic/wide/test_wide_averages.py",)),
    Mutant("tree: a bounded function of NULL", "duckdp/synthetic/tree/scales.py", "weights[column + 1] = offset", "weights[column + 1] = 0.0", ("tests/synthetic/wide/test_wide_averages.py",)),
    Mutant("tree: means for twice their share", "duckdp/synthetic/tree/buy/averages.py", "share, squared = tree.plan.means, purse.gaussian", "share, squared = 2 * tree.plan.means, purse.gaussian", ("tests/synthetic/wide/test_wide_averages.py",)),
    Mutant("tree: products for twice their share", "duckdp/synthetic/tree/buy/products.py", "share, squared, apart = tree.plan.products,", "share, squared, apart = 2 * tree.plan.products,", ("tests/synthetic/wide/test_wide_products.py",)),
)
