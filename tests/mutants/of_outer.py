"""Faults in queries over private answers: what is a release, what is one, what it costs, what the outer part may name."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_APART, _BLOCK, _SEVERAL, _BARS, _TEXT = (
    f"duckdp/compiler/outer/{n}.py" for n in ("apart", "block", "several", "outer_bars", "outer_text")
)
_TREES, _FRONT, _BINDER = "duckdp/compiler/outer/trees.py", "duckdp/front/front.py", "duckdp/front/binder.py"
_OVER, _CHARGING = "duckdp/functions/over_answers.py", "duckdp/desk/charging.py"
_T_OUTER, _T_OVER = ("tests/compiler/test_outer.py",), ("tests/test_over_answers.py",)
_ADDING, _T_ADDING = "duckdp/compiler/outer/adding.py", ("tests/compiler/test_adding.py",)
_T_PUBLISHED = ("tests/test_publishing.py",)
_T_LOSSES = ("tests/privacy/test_losses.py::test_neighbours_cost_no_more_than_the_charge_and_nearly_that",)

_LEVELS, _T_LEVELS = "duckdp/compiler/outer/grouping_sets.py", ("tests/compiler/test_grouping_sets.py", *_T_OUTER)
_T_COUNTED = ("tests/compiler/test_grouping_sets.py::test_many_sets_are_refused_before_they_are_made",)

_COMPUTED, _ENDS, _BESIDE = (f"duckdp/compiler/outer/{n}.py" for n in ("computed", "outer_ends", "beside"))
_T_COMPUTED = ("tests/test_computed_bars.py",)
_T_LEAST = ("tests/compiler/test_outer.py::test_values_that_are_declared_have_no_threshold",)

# fmt: off
OUTER: tuple[Mutant, ...] = (
    Mutant("computed: sums of rows that a join repeats", _COMPUTED, 'or len(self.sources) != 1 or self.select.args.get("joins"):', 'or not self.sources:', _T_COMPUTED),
    Mutant("computed: sums of rows that noise chose", _COMPUTED, '        if self.select.args.get("where") or self.select.args.get("sample"):', "        if False:", _T_COMPUTED),
    Mutant("computed: sums of rows that figures choose", _COMPUTED, " or not self._is_of_keys(over):", ":", _T_COMPUTED),
    Mutant("computed: what follows from noise as known", _COMPUTED, "return exact(node) if released is False else None", "return exact(node)", _T_COMPUTED),
    Mutant("computed: sums over a SELECT that chooses", _COMPUTED, "if source.block is not None and any(source.block.args.get(k) for k in _CHOOSING):", "if False:", _T_COMPUTED),
    Mutant("computed: a name of SELECT as a known value", _COMPUTED, "        if len(named) != 1:\n            return None\n", "        if len(named) != 1:\n            return exact(node)\n", _T_COMPUTED),
    Mutant("computed: a divisor on both sides of 0", _ENDS, "[exp.GT(this=_held(two.low), expression=zero), ", "[", _T_COMPUTED),
    Mutant("computed: a difference of the same ends", _ENDS, "low=exp.Neg(this=_held(of.high)), high=exp.Neg(this=_held(of.low))", "low=exp.Neg(this=_held(of.low)), high=exp.Neg(this=_held(of.high))", _T_COMPUTED),
    Mutant("computed: a product of the lower ends alone", _ENDS, "values = [_two(exp.Mul, a, b) for a in _each(one) for b in _each(two)]", "values = [_two(exp.Mul, one.low, two.low)]", _T_COMPUTED),
    Mutant("computed: a sum is off by one of its terms", _COMPUTED, "exp.Mul(this=one, expression=rows)", "exp.Mul(this=one, expression=exp.Literal.number(1))", _T_COMPUTED),
    Mutant("computed: one level for several figures", _BESIDE, "return 1 - (1 - LEVEL) / together", "return LEVEL", _T_COMPUTED),
    Mutant("computed: sums over keys above a threshold", _BESIDE, "if plan.tau is not None or plan.query.min_units is not None or not plan.measures:", "if not plan.measures:", _T_COMPUTED),
    Mutant("plain: DISTINCT ON orders by a column before a name of SELECT", "duckdp/compiler/plain_forms.py", "    return node if not named else named[0] if len(named) == 1 else None\n", "    return node\n", ("tests/compiler/test_plain_forms.py",)),
    Mutant("added up: of all sets, known or not", _ADDING, "seen.estimate(number, used).transpose", "seen.estimates(used)[number].transpose", _T_ADDING),
    Mutant("series: an alias that is a column is a key", "duckdp/compiler/outer/series.py", "(isinstance(meant, exp.Column) or key.name.lower() in known)", "isinstance(meant, exp.Column)", ("tests/compiler/test_series.py",)),
    Mutant("least: of a public list of values", "duckdp/compiler/outer/least.py", "    if domains.find(expr) is not None:\n        return False\n", "", _T_LEAST),
    Mutant("least: of all rows, whatever FILTER says", _BLOCK, '            base.set("where", exp.Where(this=both))\n', "            pass\n", _T_OUTER),
    Mutant("least: of all groups together", "duckdp/compiler/outer/least.py", "        on = same if isinstance(on, exp.Boolean) else exp.And(this=on, expression=same)\n", "        pass\n", _T_OUTER),
    Mutant("levels: people as grouping sets", _LEVELS, "        if self.scope.is_unit(node):\n", "        if False:\n", _T_LEVELS),
    Mutant("levels: sets without end", _LEVELS, "        if math.prod(len(p) for p in parts) > MOST_SETS:\n", "        if False:\n", _T_COUNTED),
    Mutant("levels: a cube without end", _LEVELS, "            if 2 ** len(units) > MOST_SETS:\n", "            if False:\n", _T_COUNTED),
    Mutant("levels: keys that are in no set stay", _LEVELS, "        if key is not None and key in gone:\n", "        if False:\n", _T_LEVELS),
    Mutant("levels: grouping() the other way round", _LEVELS, "(self._key(e) in gone)", "(self._key(e) not in gone)", _T_LEVELS),
    Mutant("bars: of one branch for all", _BARS, "if all(p in one for one in found)]", "]", _T_LEVELS),
    Mutant("bars: of rows of which one stays", _BARS, 'if not isinstance(outer, exp.Union) or outer.args.get("distinct"):', "if not isinstance(outer, exp.SetOperation):", _T_LEVELS),
    Mutant("outer: rows of units as an answer", _APART, '        if role == "private":\n            self._refuse("Q301"', '        if False:\n            self._refuse("Q301"', _T_OUTER),
    Mutant("outer: rows joined with an answer", _APART, '            if role == "outer":\n                self._refuse("Q204", ways.MIXED, item)', '            if False:\n                self._refuse("Q204", ways.MIXED, item)', _T_OUTER),
    Mutant("outer: a CTE of an answer taken for a table", _APART, 'if self._reads(table, names) == "outer" and table.name.lower() in names.outer:', "if False:", _T_OUTER),
    Mutant("outer: private rows read as public ones", "duckdp/vault/public_values.py", "    if table.public is None:\n", "    if False:\n", _T_PUBLISHED),
    Mutant("outer: private rows looked up as public ones", "duckdp/compiler/outer/public_names.py", "if table is None or table.public is None:", "if table is None:", ("tests/test_single_values.py",)),
    Mutant("outer: values of public rows without end", "duckdp/compiler/outer/looked_up.py", "            if self.found > MOST_VALUES:", "            if False:", ("tests/test_single_values.py",)),
    Mutant("join: constants that are alike repeat no row", "duckdp/compiler/relations/constant_rows.py", "max(met.values(), default=0)", "1", ("tests/compiler/test_constants.py",)),
    Mutant("join: constants that no question holds", "duckdp/compiler/relations/constant_rows.py", "told.encode()", 'b""', ("tests/compiler/test_constants.py",)),
    Mutant("join: constants without end", "duckdp/compiler/relations/listing.py", "if len(found.rows) * width > MOST_CONSTANTS:", "if False:", ("tests/compiler/test_constants.py",)),
    Mutant("outer: public rows of another state", "duckdp/vault/dataset.py", "        self.version_of(table, self.require_current())\n        return public_values", "        return public_values", _T_PUBLISHED),
    Mutant("outer: public rows without end", "duckdp/compiler/outer/public_rows.py", "if sum(rows.cells for rows in found) > MOST_CELLS:", "if False:", _T_PUBLISHED),
    Mutant("outer: columns of public rows by their places", "duckdp/compiler/outer/public_rows.py", 'table.args["alias"].args.get("columns") or ', "", _T_PUBLISHED),
    Mutant("outer: a table of ours taken for a public one", _APART, 'return "outer" if table is None else "private" if table.public is None else "public"', 'return "outer" if table is None else "public"', (*_T_OUTER, *_T_PUBLISHED)),
    Mutant("join: what one branch of OR says", "duckdp/compiler/scope.py", "if all(part in said for said in others)]", "]", ("tests/compiler/test_public.py",)),
    Mutant("join: steps without end", "duckdp/compiler/relations/subqueries.py", "        if isinstance(rows.table, Relation) and rows.table.nodes > MAX_NODES:\n", "        if False:\n", ("tests/adversary/test_relational_attacks.py",)),
    Mutant("join: a unit with one row repeats none", "duckdp/compiler/relations/joined.py", "p.rows == 1 or (told and p.table.max_rows == 1)", "True", ("tests/compiler/test_links.py",)),
    Mutant("outer: groups of a unit as a release", _APART, 'return "private" if self._of_units(node, names) else "release"', 'return "release"', _T_OUTER),
    Mutant("outer: protected tables left in the outer part", _APART, '            if role == "private":\n                self._refuse("Q301", ways.ROWS, node)\n            if', "            if", _T_OUTER),
    Mutant("outer: functions that take texts", _APART, 'if name.startswith("dp_") or (name in _ASKING and isinstance(node, exp.Anonymous)):', "if False:", _T_OUTER),
    Mutant("outer: quoted names of functions", _APART, "name = node.name.lower() if isinstance(", "name = str(node.this).lower() if isinstance(", _T_OUTER),
    Mutant("outer: a macro asks beside", _FRONT, "self._binder.silent() if ours else nullcontext()", "nullcontext()", _T_OVER),
    Mutant("outer: what binds is never silent", _BINDER, 'getattr(self._silent, "on", False)', "False", _T_OVER),
    Mutant("outer: a silence without end", _BINDER, "            self._silent.on = False\n", "            pass\n", _T_OVER),
    Mutant("outer: a hidden CTE is read", _APART, "            if name in names.hidden and not item.db:\n", "            if False:\n", _T_OUTER),
    Mutant("outer: only the name itself is lost", _APART, "if known == name or (lost and not lost.isdisjoint(_read_by(before))):", "if known == name:", _T_OUTER),
    Mutant("outer: a CTE that reads what it hides", _APART, "if name in lost and not lost.isdisjoint(_read_by(cte)):", "if False:", _T_OUTER),
    Mutant("outer: a CTE named twice", _APART, "if given.count(name) > 1:", "if False:", _T_OUTER),
    Mutant("outer: names of CTEs within", _TREES, "        own = after\n", "        pass\n", _T_OUTER),
    Mutant("outer: our own names", _APART, "if isinstance(node, (exp.Identifier, exp.Anonymous)) and str(node.this).lower().startswith(RESERVED):", "if False:", _T_OUTER),
    Mutant("outer: SELECTs without end", _APART, "        if self.blocks > MOST_BLOCKS:\n", "        if False:\n", _T_OUTER),
    Mutant("outer: equal questions drawn apart", _BLOCK, "(i for i, q in enumerate(self.queries) if _groups(q) == _groups(query))", "(i for i, q in enumerate(self.queries) if False)", _T_OUTER),
    Mutant("outer: windows taken for aggregates", _BLOCK, "        if isinstance(node, exp.Window):\n            return self._window", "        if False:\n            return self._window", _T_OUTER),
    Mutant("outer: HAVING forgotten", _BLOCK, "        if having is not None:\n", "        if False:\n", _T_OUTER),
    Mutant("outer: shares that leave a rest", _SEVERAL, "parts[next(i for i, weight in enumerate(weights) if weight)] += whole - sum(parts)", "pass", _T_OUTER),
    Mutant("outer: more delta than was typed", _SEVERAL, " or sum(loss.delta_atto for loss in losses) > delta:", ":", ("tests/compiler/test_grouping_sets.py::test_more_delta_than_was_typed_is_caught",)),
    Mutant("outer: places of error columns", "duckdp/compiler/outer/positions.py", "if not 1 <= index <= count:", "if index < 1:", ("tests/test_ordered_positions.py::test_places_beyond_the_outputs_are_refused_before_anything_is_charged",)),
    Mutant("outer: every part the whole", _SEVERAL, "parts = [whole * weight // sum(weights) for weight in weights]", "parts = [whole for _ in weights]", _T_OUTER),
    Mutant("outer: one part is charged", _SEVERAL, "epsilon_nano=sum(loss.epsilon_nano for loss in losses)", "epsilon_nano=max(loss.epsilon_nano for loss in losses)", (*_T_OUTER, *_T_LOSSES)),
    Mutant("outer: the order of the text", _SEVERAL, "reading = sorted((plan for plan in plans if plan.reads), key=Plan.canonical)", "reading = [plan for plan in plans if plan.reads]", _T_OUTER),
    Mutant("outer: all stages at the end", _SEVERAL, "found.append(stages.run(partial(_drawn, task, query, stages)))", "found.append(stages._drawn(partial(_drawn, task, query, stages)))", _T_OVER),
    Mutant("outer: a * shows our columns", "duckdp/compiler/outer/sources.py", "or len(set(names)) < len(names) or _shown_whole(select, nodes):", "or len(set(names)) < len(names):", _T_OUTER),
    Mutant("outer: an index is shifted", _TEXT, 'node.set("offset", 1)', "pass", _T_OUTER),
    Mutant("outer: bound after the charge", _OVER, "        named = front.bound(self.text([_empty(part) for part in columns], intervals=True))\n        released = self.release(desk, statement, fresh=fresh)\n", "        released = self.release(desk, statement, fresh=fresh)\n        named = front.bound(self.text([_empty(part) for part in columns], intervals=True))\n", _T_OVER),
    Mutant("adding: least squares of what is bounded apart", _ADDING, "    return once and rows <= max(1, table.max_rows) and min(rows, size) <= plan.groups\n", "    return True\n", _T_ADDING),
    Mutant("adding: rows without a group", _ADDING, "    if known.nullable and None not in (key.domain or ()):\n", "    if False:\n", _T_ADDING),
    Mutant("adding: units in several groups", _ADDING, "    once = rows == 1 or not any", "    once = True or not any", _T_ADDING),
    Mutant("adding: a derived part is read", "duckdp/compiler/plan.py", "return bool(self.measures) and not self.derived", "return bool(self.measures)", _T_ADDING),
    Mutant("adding: noise of one cell for all", "duckdp/core/summedbars.py", "terms[size * abs(c), noise] += n", "terms[size * abs(c), noise] += 1", ("tests/core/test_summedbars.py",)),
)
