"""Faults in samplers, selections and what is claimed to be proved: noise of another law, bounds that do not hold."""

from __future__ import annotations

from tests.mutants.mutant import LOSSES, Mutant

_VARIATES, _NOISE, _SMOOTH = (
    "duckdp/core/variates.py",
    "duckdp/core/noise.py",
    "duckdp/mechanisms/smooth_sensitivity.py",
)
_DATES = "duckdp/compiler/operators/dates.py"
_PROVED, _BATCH, _ENCLOSURE, _RATIO = (
    "duckdp/smooth/fit/proved.py",
    "duckdp/smooth/batch.py",
    "duckdp/smooth/fit/enclosure.py",
    "duckdp/core/ratiobars.py",
)
_ONESIDED, _STRUCTURED = "duckdp/smooth/fit/onesided.py", "duckdp/smooth/fit/structured.py"
_COEFFICIENTS, _BARS = "duckdp/smooth/fit/coefficients.py", "duckdp/smooth/answer_bars.py"
_PURSE, _T_COUNTS = "duckdp/synthetic/unit/buy/purse.py", ("tests/synthetic/wide/test_wide_counts.py",)
_T_BOUNDS = ("tests/smooth/test_true_bounds.py",)
_T_SIDES, _T_PREDICTED = ("tests/smooth/test_structured.py",), ("tests/smooth/test_predicted.py",)
_CHOOSE, _PSI, _SELECT, _BEST, _PSI_PLAN = (
    "duckdp/mechanisms/noisy_maximum.py",
    "duckdp/synthetic/psi/buy.py",
    "duckdp/mechanisms/exponential.py",
    "duckdp/synthetic/moments/buy/strongest.py",
    "duckdp/synthetic/psi/plan.py",
)
_SUMMARY, _COUNTED, _GROUPED = (f"duckdp/smooth/buy/{n}.py" for n in ("summary_task", "counted", "per_group"))
_STORED, _SYNTHETIC, _QUANT = (
    "duckdp/smooth/summary.py",
    "duckdp/synthetic/lp/buy/synthesis_task.py",
    "duckdp/compiler/quantile.py",
)
_ADMISSIBLE = "duckdp/mechanisms/admissible_noise.py"
_T_VARIATES, _T_NOISE = ("tests/core/test_variates.py",), ("tests/core/test_noise.py",)
_T_SMOOTH = ("tests/mechanisms/test_smooth_sensitivity.py",)
_T_LOSSES = (LOSSES,)
_T_PROVED = (
    "tests/smooth/test_proved.py::test_cancellation_is_in_the_bound",
    "tests/smooth/test_proved.py::test_every_proved_bound_holds_and_both_paths_agree",
)
_T_ENCLOSURE = ("tests/smooth/test_enclosure.py",)
_T_CHOICE = tuple(
    f"tests/synthetic/wide/test_wide_release.py::{name}"
    for name in ("test_choice_has_the_law_of_the_noisy_maximum", "test_choice_costs_epsilon_and_not_less")
)
_T_PSI = ("tests/synthetic/wide/test_wide_psi.py",)
_T_RATIO = ("tests/core/test_ratiobars.py",)

# fmt: off
NUMERICS: tuple[Mutant, ...] = (
    # ---- variates for private scales
    Mutant("variate: half of the scale", _VARIATES, "scale.numerator // (scale.denominator << grid)", "scale.numerator // (scale.denominator << grid + 1)", _T_VARIATES),
    Mutant("variate: never negative", _VARIATES, "return -found - 1 if drawn & 1 else found", "return found", _T_VARIATES),
    Mutant("variate: 0 twice", _VARIATES, "return -found - 1 if drawn & 1 else found", "return -found if drawn & 1 else found", _T_VARIATES),
    Mutant("variate: the sign's bit is used again", _VARIATES, "drawn = random_bits(BITS + 1)\n    found = magnitude(drawn >> 1)", "drawn = random_bits(BITS)\n    found = magnitude(drawn)", _T_VARIATES),
    Mutant("variate: student of half the variance", _VARIATES, "(square << 2 * grid + 1)", "(square << 2 * grid)", _T_VARIATES),
    Mutant("variate: few bits", _VARIATES, "BITS = 640", "BITS = 60", (*_T_VARIATES, *_T_SMOOTH)),
    Mutant("variate: a coarse grid", _VARIATES, "GRID = 320", "GRID = 4", (*_T_VARIATES, *_T_SMOOTH)),
    # ---- samplers
    Mutant("noise: laws end where the sampler does", _NOISE, "    if not drawn or (min(drawn) > lowest and max(drawn) < highest):\n", "    if True:\n", _T_NOISE),
    Mutant("noise: tails begin anew", _NOISE, "whole.append(lowest - further(-lowest))", "whole.append(-further(-lowest))", _T_NOISE),
    Mutant("noise: gaussian tails are geometric", _NOISE, "        if bernoulli_exp(k * k / (2 * variance)):\n", "        if True:\n", _T_NOISE),
    Mutant("noise: coins are turned", _NOISE, "    return k % 2 == 1\n", "    return k % 2 == 0\n", _T_NOISE),
    Mutant("noise: geometric starts are uniform", _NOISE, "    while not _bernoulli_exp_below_one(start, b):\n", "    while False:\n", _T_NOISE),
    Mutant("noise: geometric of another rate", _NOISE, "return (start + b * laps) // a", "return start + b * laps", _T_NOISE),
    Mutant("noise: large rates are cut", _NOISE, "    for _ in range(whole):  # stops", "    for _ in range(0):  # stops", _T_NOISE),
    # ---- smooth sensitivity
    Mutant("smooth: half of the noise", _ADMISSIBLE, "twice = 2 * Fraction(", "twice = Fraction(", _T_SMOOTH),
    Mutant("smooth: alpha left out", _ADMISSIBLE, "float(top))) / self.alpha", "float(top)))", _T_SMOOTH),
    Mutant("smooth: rho of half", _SMOOTH, "PICO // (2 * NANO**2))", "PICO // (4 * NANO**2))", _T_SMOOTH),
    Mutant("smooth: nothing beyond the window", _SMOOTH, "\n  UNION ALL SELECT {last_unit}, {top})", ")", _T_SMOOTH),
    Mutant("smooth: one unit fewer", _SMOOTH, "above.d <= (k + 1) * {unit}\n  JOIN below ON below.d = (k + 1) * {unit} - above.d", "above.d <= k * {unit}\n  JOIN below ON below.d = k * {unit} - above.d", _T_SMOOTH),
    Mutant("smooth: decay of another unit", _SMOOTH, "system.main.exp(k * -{decay})", "system.main.exp((k + 1) * -{decay})", _T_SMOOTH),
    Mutant("smooth: a scale of 0", _ADMISSIBLE, "return min(bound if bound > self.least else self.least, top)", "return min(bound, top)", (*_T_SMOOTH, "tests/privacy/test_draws.py")),
    Mutant("quantile: WHERE out of the identity", _QUANT, "self.column.name, show(self.where), str(q.quantile)", "self.column.name, str(q.quantile)", ("tests/privacy/test_identities.py::test_every_public_figure_is_in_the_text[_quantiles]",)),
    # ---- selections
    Mutant("choice: the best", _CHOOSE, "noisy = [(q + noise,", "noisy = [(q + 0 * noise,", _T_CHOICE),
    Mutant("choice: scores move by one sum", _BEST, "purse.take_epsilon(share), (4 << BITS) + _SLACK", "purse.take_epsilon(share), 1 << BITS", ("tests/synthetic/wide/test_wide_links.py", "tests/synthetic/wide/test_wide_path.py", *_T_LOSSES)),
    Mutant("exponential: the best", _SELECT, "draw = random_bits(_DRAWN) * sum(weights) >> _DRAWN", "draw = max(weights) - 1; weights = [w if w == max(weights) else 0 for w in weights]", ("tests/synthetic/wide/test_wide_tree_private.py", "tests/privacy/test_draws.py")),
    Mutant("psi: replace moves once", _PSI_PLAN, "1 << BITS, 2 if terms.neighbours is Neighbours.REPLACE else 1", "1 << BITS, 1", _T_PSI),
    Mutant("psi: one direction of many", _PSI_PLAN, "(twice * (unit * d + d * k)) ** 2", "(twice * (unit + d * k)) ** 2", _T_PSI),
    Mutant("psi: l1 of one direction", _PSI_PLAN, "math.ceil(unit * math.sqrt(k) * d**1.5)", "math.ceil(unit * d)", _T_PSI),
    Mutant("psi: rounding left out", _PSI_PLAN, "(twice * (unit * d + d * k)) ** 2", "(twice * (unit * d)) ** 2", _T_PSI),
    Mutant("psi: coordinates beyond 1", _PSI, "system.main.greatest({number(-1)}, system.main.least({number(1)}, {x}))", "{x}", _T_PSI),
    # ---- summaries and tables
    Mutant("summary: sums beyond row_cap", _SUMMARY, "*(max(-most, min(most, value)) for value in found[kept:])", "*found[kept:]", ("tests/privacy/test_draws.py", "tests/smooth/test_smooth_summary.py", "tests/smooth/test_bad_input.py")),
    Mutant("summary: a public count where rows drop out", _SUMMARY, "table.filter is None and all(_always_counts(c) for c in chosen)", "table.filter is None", ("tests/smooth/test_smooth_summary.py", "tests/smooth/test_moments_sensitivity.py", *_T_LOSSES)),
    Mutant("summary: a public count of a view", _SUMMARY, "Neighbours.REPLACE and table.filter is None and all(", "Neighbours.REPLACE and all(", ("tests/smooth/test_smooth_summary.py", "tests/smooth/test_moments_sensitivity.py")),
    Mutant("summary: a public count under add-remove", _SUMMARY, "public = neighbours is Neighbours.REPLACE and table.filter", "public = table.filter", _T_LOSSES),
    Mutant("summary: replace with keys", _SUMMARY, "    if neighbours is Neighbours.REPLACE and table.unit_key is not None:\n", "    if False:\n", ("tests/smooth/test_smooth_summary.py", "tests/smooth/test_bad_input.py")),
    Mutant("summary: declaration out of the identity", _SUMMARY, '            "declaration": sha256(dump_table(self.table).encode()).hexdigest(),\n', "", ("tests/privacy/test_identities.py::test_every_public_figure_is_in_the_text[_summaries]",)),
    Mutant("summary: columns out of the identity", _SUMMARY, '            "declaration": sha256(dump_table(self.table).encode()).hexdigest(),\n            "columns": [c.name for c in self.columns],\n', '            "declaration": sha256(dump_table(self.table).encode()).hexdigest(),\n', ("tests/privacy/test_identities.py::test_every_public_figure_is_in_the_text[_summaries]",)),
    Mutant("summary: charge out of the identity", _SUMMARY, '            "epsilon_nano": self.epsilon_nano,\n            "delta_atto": self.loss.delta_atto,\n            "path": self.moments.path,\n', "", ("tests/privacy/test_identities.py::test_every_public_figure_is_in_the_text[_summaries]",)),
    Mutant("counted: the exact count goes on", _COUNTED, "lambda: str(self._noisy_count(read()[0]))", "lambda: str(read()[0])", ("tests/smooth/test_counted.py", "tests/privacy/test_draws.py", *_T_LOSSES)),
    Mutant("counted: the count's noise of half", _COUNTED, "laplace_noise(1, laplace_scale(share, self.largest.sensitivity.linf))", "laplace_noise(1, laplace_scale(2 * share, self.largest.sensitivity.linf))", ("tests/smooth/test_counted.py", *_T_LOSSES)),
    Mutant("grouped: per out of the identity", _GROUPED, "json.dumps([KIND, self.by.name, self.one.canonical])", "json.dumps([KIND, self.one.canonical])", ("tests/privacy/test_identities.py::test_every_public_figure_is_in_the_text[_grouped]",)),
    Mutant("stored summary: any noise", _STORED, "if not all(type(s) is float and LEAST_SCALE <= s < RANGE for s in self.scales):", "if False:", ("tests/smooth/test_smooth_summary.py::test_a_stored_summary_says_its_noise",)),
    Mutant("synthetic: NULLs are free", _SYNTHETIC, "whole = summary.epsilon_nano + self.missing.epsilon_nano", "whole = summary.epsilon_nano", ("tests/synthetic/test_missing.py", *_T_LOSSES)),
    Mutant("synthetic: NULLs at the whole epsilon", _SYNTHETIC, "        epsilon_nano=epsilon_nano - part,\n", "        epsilon_nano=epsilon_nano,\n", ("tests/synthetic/test_missing.py", *_T_LOSSES)),
    # ---- proved bounds and intervals
    Mutant("proved: f is computed exactly", _PROVED, "own = 2.0**-44 * scale if exact is None else exact + 2.0**-46 * scale", "own = 0.0", _T_PROVED),
    Mutant("proved: cancellation in f", _PROVED, "else exact + 2.0**-46 * scale", "else 2.0**-46 * scale", _T_PROVED),
    Mutant("proved: rounding left out", _PROVED, "return lost + rounding(part, scales[0], own[0])", "return lost", (*_T_PROVED, "tests/smooth/test_honesty.py")),
    Mutant("proved: what the basis lacks", _PROVED, "return lost + rounding(part, scales[0], own[0])", "return rounding(part, scales[0], own[0])", (*_T_PROVED, "tests/smooth/test_honesty.py", "tests/smooth/test_smooth_answer.py")),
    Mutant("proved: nothing is lost below the smallest floats", _PROVED, "UNDERFLOW = 1e-300", "UNDERFLOW = 0.0", _T_BOUNDS),
    Mutant("proved: largest at places of floats", _COEFFICIENTS, "np.cos(turns * (math.pi / points))", "chebyshev(axis.to_unit(axis.from_unit(np.cos(np.arange(points + 1) * (math.pi / points)))), axis.degree)", _T_BOUNDS),
    Mutant("sides: their distance has no noise", _BARS, "gap[0] + gap[2] + gap[3] for gap in gaps", "gap[0] + gap[3] for gap in gaps", _T_BOUNDS),
    Mutant("counts: half of the change", _PURSE, "moves = groups * (2 if neighbours is Neighbours.REPLACE else 1)", "moves = groups", _T_COUNTS),
    Mutant("counts: one domain's", _PURSE, "return Sensitivity(l1=moves * unit, l2_squared=moves * unit**2, linf=unit)", "return Sensitivity(l1=unit, l2_squared=unit**2, linf=unit)", _T_COUNTS),
    Mutant("counts: every value of a row", "duckdp/synthetic/moments/domain_values.py", "above & (np.cumsum(above, axis=1) == 1)", "above", _T_COUNTS),
    Mutant("counts: paid for once more", _PURSE, "counts_sensitivity(groups, unit, self.neighbours), self.take(share)", "counts_sensitivity(groups, unit, self.neighbours), self.cost(share)", _T_COUNTS),
    Mutant("proved: on any grid", _PROVED, "    if complete and math.isfinite(own[1]):\n", "    if math.isfinite(own[1]):\n", ("tests/smooth/test_proved.py::test_nothing_is_proved_by_a_grid_that_leaves_values_out",)),
    Mutant("proved: every grid is complete", _BATCH, "    grid = tensor_points(part.axes, x)\n    seen =", "    complete = True\n    grid = tensor_points(part.axes, x)\n    seen =", _T_PROVED),
    Mutant("enclosure: weeks begin on Mondays", _DATES, 'room = np.where(before | (call.option == "week"), 1.0, 0.0)', "room = np.where(before, 1.0, 0.0)", _T_ENCLOSURE),
    Mutant("enclosure: coalesce is its first", _ENCLOSURE, "found = hull([own, found]) if self._may_be_null(argument) else own", "found = own", (f"{_T_ENCLOSURE[0]}::test_ranges_hold_the_values[coalesce(CASE WHEN x > 1 THEN x END, 9)]",)),
    Mutant("sides: not moved up", _ONESIDED, "found[0] += self._lacking(found, high, sign) + ", "found[0] += ", _T_SIDES),
    Mutant("sides: ranges taken at one end of a cell", _ONESIDED, "found = enclose(function, [axis], [x[1:]], [x[:-1]])", "found = enclose(function, [axis], [x[1:]], [x[1:]])", _T_SIDES),
    Mutant("sides: an upper one below", _STRUCTURED, "        low = low - _bounded(part, others, 1)\n", "", _T_SIDES),
    Mutant("sides: what changes its sign is not moved", _STRUCTURED, "    low[0] -= least\n    high[0] -= least\n    return low, high", "    return own", _T_SIDES),
    Mutant("sides: what the basis lacks", _STRUCTURED, "kept[0] += sign * (lost + _ROOM", "kept[0] += sign * (_ROOM", _T_SIDES),
    Mutant("structured: errors of one factor alone", _STRUCTURED, "error += math.prod(p.size + p.error for p in term) - math.prod(p.size for p in term) + lost", "error += max(p.error for p in term)", _T_SIDES),
    Mutant("structured: choices whose arms are undefined", "duckdp/smooth/fit/separate.py", "    if any(facts(arm).nullable or not facts(arm).finite for arm in (value, default)):\n        return []\n", "", _T_SIDES),
    Mutant("default: the old one before the new one", "duckdp/desk/desk.py", "for one in (task, *before) if", "for one in (*before, task) if", _T_PREDICTED),
    Mutant("default: a final charge of old stands", "duckdp/ledger/ledger.py", "return known and not (request.again and charges.last_asked(tx, request)[1] is None)", "return known", _T_PREDICTED),
    Mutant("fieller: the denominator is exact", _RATIO, "- np.outer(np.array(h), np.sin(angles))", "- 0 * np.outer(np.array(h), np.sin(angles))", _T_RATIO),
    Mutant("fieller: steps of small noise", _RATIO, "0.5 if n.scale < _SMOOTH else 0.0", "0.0", ("tests/core/test_ratiobars.py::test_the_width_of_one_small_noise_is_no_less_than_its_law_says",)),
    Mutant("fieller: steps of small normal noise", _RATIO, "0.5 if n.scale < _SMOOTH else 0.0", "0.5 if n.scale < _SMOOTH and n.family == 'laplace' else 0.0", (f"{_T_RATIO[0]}::test_the_least_discrete_laws_are_covered_by_the_law_itself",)),
    Mutant("fieller: noise out of the range", _RATIO, "factor = np.where(outside, 2 * (excess(best, factor) + 1), factor)", "pass", _T_RATIO),
)
