"""Faults in what a statement may say and mean: tokens, names, types, bounds and domains that follow, caps, grants."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_PARSE, _TOKENS, _FRAME, _SCOPE = (f"duckdp/compiler/{n}.py" for n in ("parse", "tokens", "frame", "scope"))
_FROM, _GROUPED, _GROUPS, _DERIVED = (
    f"duckdp/compiler/relations/{n}.py" for n in ("subqueries", "per_unit_select", "unit_groups", "derived")
)
_JOINED, _JOINING, _MATCHED = (f"duckdp/compiler/relations/{n}.py" for n in ("joined", "joining", "matched"))
_WITH_PUBLIC, _JOINING_PUBLIC, _FILLED = (
    f"duckdp/compiler/relations/{n}.py" for n in ("with_public", "joining_public", "filled")
)
_T_PUBLIC, _T_PUBLISHING = ("tests/compiler/test_public.py",), ("tests/test_publishing.py",)
_T_RELATIONS = ("tests/compiler/test_relations.py",)
_STACKED, _STACKING = (f"duckdp/compiler/relations/{n}.py" for n in ("stacked", "stacking"))
_T_STACKED = ("tests/compiler/test_stacked.py",)
_UNIT_KEYS, _T_UNIT_KEYS = "duckdp/compiler/relations/unit_keys.py", ("tests/compiler/test_unit_keys.py",)
_CHOOSING, _T_FLAGS = "duckdp/compiler/relations/choosing.py", ("tests/compiler/test_flags.py",)
_WINDOWED, _WINDOWING, _NARROWED = (f"duckdp/compiler/relations/{n}.py" for n in ("windowed", "windowing", "narrowed"))
_WHOLE_KEYS, _T_WHOLE_KEYS = "duckdp/compiler/relations/whole_keys.py", ("tests/compiler/test_whole_keys.py",)
_WINDOW_CALLS = "duckdp/compiler/relations/window_calls.py"
_T_WINDOWS = ("tests/compiler/test_windows.py",)
_SCALARS, _FACTS = (f"duckdp/compiler/{n}.py" for n in ("scalars", "facts"))
_NODES, _AGGREGATES = (f"duckdp/compiler/{n}.py" for n in ("nodes", "aggregates"))
_SIMPLEX, _T_ROWS = "duckdp/mechanisms/simplex.py", ("tests/compiler/test_rows.py",)
_ARITHMETIC, _CONDITIONAL, _CASTS = (
    f"duckdp/compiler/operators/{n}.py" for n in ("arithmetic", "conditional", "casts")
)
_PRINT, _DOMAINS, _PLAN, _NUMBERS = (f"duckdp/compiler/{n}.py" for n in ("printing", "domains", "plan", "numbers"))
_BINDER, _FRONT, _SESSION, _CURATOR, _DESK, _DATASET = (
    f"duckdp/{n}.py" for n in ("front/binder", "front/front", "session", "curator", "desk/desk", "vault/dataset")
)
_GUARDED, _VIEWS, _ROUTING = (f"duckdp/{n}.py" for n in ("front/guarded", "vault/views", "functions/routing"))
_REMEMBERED, _T_REMEMBERED = "duckdp/desk/remembered.py", ("tests/test_remembered.py",)
_T_TOKENS, _T_PARSE = ("tests/compiler/test_tokens.py",), ("tests/compiler/test_parse.py",)
_T_GATE = ("tests/adversary/test_more_attacks.py", "tests/compiler/test_parse.py", "tests/adversary/test_injection.py")
_T_GRANTS, _T_CAPS = ("tests/test_grants.py",), ("tests/test_caps.py",)
_T_FACTS = ("tests/compiler/test_totality.py", "tests/compiler/test_meaning.py")
_RULED_OUT, _T_RULED_OUT = "duckdp/compiler/ruled_out.py", ("tests/compiler/test_ruled_out.py",)
_PUBLIC_KEYS, _T_PUBLIC_KEYS = "duckdp/compiler/public_keys.py", ("tests/compiler/test_public_keys.py",)
_T_DOMAINS = ("tests/compiler/test_domains.py",)
_T_FRONT = ("tests/test_guarded.py", "tests/adversary/test_escapes.py", "tests/test_front.py")
_T_ROUTING = ("tests/test_routing.py", "tests/test_routing_rows.py")
_T_VIEWS = ("tests/test_declarations.py", "tests/adversary/test_hostile_schemas.py", "tests/test_sources.py")

# fmt: off
GATE: tuple[Mutant, ...] = (
    # ---- tokens
    Mutant("combinations: hours by the day", "duckdp/compiler/listed_columns.py", "return frozenset() if column.kind is Kind.DATE else None", "return frozenset()", ("tests/compiler/test_combinations.py",)),
    Mutant("combinations: constants alone stand for what is between them", "duckdp/compiler/listed_columns.py", "tuple(_within(column, [*marks, *middles]))", "tuple(_within(column, marks))", ("tests/compiler/test_combinations.py",)),
    Mutant("combinations: a label stands for nothing", "duckdp/compiler/combinations.py", " and column.other is None else None", " else None", ("tests/compiler/test_combinations.py",)),
    Mutant("public keys: rows without a public one", _PUBLIC_KEYS, "    if scan.missing:\n        found |=", "    if False:\n        found |=", _T_PUBLIC_KEYS),
    Mutant("public keys: ON of a LEFT JOIN chooses rows", _PUBLIC_KEYS, "(replaced(c, place), False)", "(replaced(c, place), True)", _T_PUBLIC_KEYS),
    Mutant("public keys: two scans are one", _PUBLIC_KEYS, "(*way, word)", "()", _T_PUBLIC_KEYS),
    Mutant("public keys: other public rows are the same question", _PLAN, '**({"together": digest_together(self.query)} if self.query.together else {}),', "", _T_PUBLIC_KEYS),
    Mutant("tokens: brackets in each other", _TOKENS, "            if len(levels) > MAX_BRACKETS:\n", "            if False:\n", _T_TOKENS),
    Mutant("tokens: types in each other", _TOKENS, "            if levels[-1] > MAX_TYPED:\n", "            if False:\n", _T_TOKENS),
    Mutant("tokens: types in a row", _TOKENS, "        if row > MAX_TYPES:\n", "        if False:\n", _T_TOKENS),
    Mutant("tokens: texts after types", _TOKENS, "and len(token.text) > MAX_TYPE_TEXT:", "and False:", _T_TOKENS),
    Mutant("tokens: stars after types", _TOKENS, "and after.text.upper() in _STAR_OPTIONS:", "and False:", ("tests/compiler/test_rules.py::test_a_star_with_options_after_a_type_is_not_parsed",)),
    Mutant("tokens: quoted types", _TOKENS, """            if quoted and ("(" in chain""", """            if False and ("(" in chain""", _T_TOKENS),
    Mutant("tokens: as many as you like", _TOKENS, "    if len(tokens) > MAX_TOKENS:\n", "    if False:\n", (*_T_TOKENS, *_T_PARSE)),
    Mutant("tokens: steps without end", _TOKENS, "        if self.steps < 0:\n", "        if False:\n", _T_TOKENS),
    # ---- statements
    Mutant("parse: several statements", _PARSE, "    if len(statements) > 1:\n", "    if False:\n", _T_GATE),
    Mutant("parse: trees of any depth", _PARSE, "if depth > MAX_DEPTH or nodes > MAX_NODES:", "if False:", (*_T_PARSE, *_T_TOKENS)),
    Mutant("parse: statements of any length", _PARSE, 'if len(text.encode("utf-8", "surrogatepass")) > MAX_STATEMENT:', "if False:", _T_PARSE),
    Mutant("parse: predicates with clauses", _PARSE, "found = [] if extra or not isinstance", "found = [] if not isinstance", _T_GATE),
    Mutant("parse: numbers glued to names", _PARSE, "    if token.token_type is TokenType.VAR:\n", "    if False:\n", _T_GATE),
    Mutant("select: clauses that have no rule", _FRAME, "if value and clause not in CLAUSES and not _has", "if False and not _has", _T_GATE),
    Mutant("select: tables with options", _FROM, 'if not value or part in ("this", "alias"):', "if True:", _T_GATE),
    Mutant("scope: other relations", _SCOPE, "return [n for n in self.shown if not qualifier or qualifier in (name.lower() for name in n.names[:own])]", "return list(self.shown)", ("tests/compiler/test_rules.py::test_a_column_is_one_of_this_table",)),
    # ---- subqueries
    Mutant("subqueries: LIMIT inside", _FROM, "if select.args.get(clause) is not None:", "if False:", _T_RELATIONS),
    Mutant("subqueries: a table before a CTE", _FROM, "cte = None if node.args.get(\"db\") else known.get(node.name.lower())", "cte = None if node.args.get(\"db\") or node.name.lower() in self.tables else known.get(node.name.lower())", _T_RELATIONS),
    Mutant("subqueries: a unit by its name", _SCOPE, "            return any(n.view.is_unit(node.name) for n in own)", "            return node.name.lower() == str(self.table.unit_key).lower()", _T_RELATIONS),
    Mutant("subqueries: groups of several units", _GROUPED, "        if not own and not naming:\n", "        if False:\n", _T_RELATIONS),
    Mutant("keys: rows without a key are a unit's group", _GROUPED, "        if naming and not own and", "        if False and", _T_UNIT_KEYS),
    Mutant("keys: any column is a link's", _UNIT_KEYS, "or scope.key(node) is None:", "or False:", _T_UNIT_KEYS),
    Mutant("keys: a value in the place of NULL is one unit's", _UNIT_KEYS, "and found.column.null_value is None else None", "else None", _T_UNIT_KEYS),
    Mutant("keys: a column of one branch is a key", _STACKING, "len(named) == 1 and not of_null", "len(named) == 1", _T_UNIT_KEYS),
    Mutant("keys: none is NULL", _UNIT_KEYS, "return key.column.nullable and not by_link", "return False", _T_UNIT_KEYS),
    Mutant("keys: NULL of IN is FALSE everywhere", _CHOOSING, "found.doubtful and not _asks_truth(test):", "False:", _T_UNIT_KEYS),
    Mutant("keys: keys of other rows tie units", _CHOOSING, " or around.key(one) != own.key(two):", ":", _T_UNIT_KEYS),
    Mutant("subqueries: unfolded without end", _FROM, "if any(parts > MAX_PARTS or depth > MAX_DEPTH for parts, depth in sizes) or nodes > MAX_NODES:", "if False:", _T_RELATIONS),
    Mutant("relations: no clamp to what is claimed", _DERIVED, "if column.lower is not None and column.kind is not Kind.BOOLEAN:", "if False:", _T_RELATIONS),
    Mutant("relations: zeros with a sign", _DERIVED, "return f\"({value} + 0e0)\" if column.kind is Kind.NUMBER else value", "return value", _T_RELATIONS),
    Mutant("relations: sums as they come", _GROUPS, "return f\"CAST(CASE {ends} ELSE {on_grid} END AS BIGINT)\"", "return f\"({value} * {number(steps)})\"", _T_RELATIONS),
    Mutant("relations: averages of all rows", _GROUPS, "system.main.count(v{i}){of} AS DOUBLE) * \"", "system.main.count(){of} AS DOUBLE) * \"", _T_RELATIONS),
    Mutant("relations: more rows of a unit than are claimed", _GROUPS, "return 2 + column.nullable", "return 1", _T_RELATIONS),
    Mutant("joins: units not compared", _JOINED, 'else [f"l.{UNIT} = r.{UNIT}"]', 'else ["TRUE"]', _T_RELATIONS),
    Mutant("joins: units implied by keys that are read as one", "duckdp/compiler/relations/implied.py", "exact = _is_kept_apart(column) and _is_kept_apart(key)", "exact = True", ("tests/compiler/test_links.py",)),
    Mutant("joins: units implied by any key", "duckdp/compiler/relations/implied.py", "(column.source, key.source) == (link.column, link.key) and", "", ("tests/compiler/test_links.py",)),
    Mutant("joins: whole numbers of any column", _WHOLE_KEYS, "return column is not None and _is_apart(column)", "return column is not None", _T_WHOLE_KEYS),
    Mutant("joins: whole numbers beyond their bounds", _WHOLE_KEYS, "    if column.lower is None:\n        return raw\n", "    if True:\n        return raw\n", _T_WHOLE_KEYS),
    Mutant("joins: whole numbers of 64 bits without bounds", _WHOLE_KEYS, "        return of in _APART\n", "        return True\n", _T_WHOLE_KEYS),
    Mutant("joins: rows are chosen by whole numbers too", _JOINED, "return {} if self.most != (None, None) else", "return", _T_WHOLE_KEYS),
    Mutant("joins: the unit of one side for both", _JOINED, '"full": f"COALESCE(l.{UNIT}, r.{UNIT})"', '"full": f"l.{UNIT}"', _T_RELATIONS),
    Mutant("joins: any condition will do", _JOINING, "if not any(_compares(part, left, right) for part in said):", "if False:", _T_RELATIONS),
    Mutant("joins: all rows of a unit on both sides", _JOINED, "return None if few[0] else JOIN_ROWS, None if few[1] else JOIN_ROWS", "return None, None", _T_RELATIONS),
    Mutant("joins: NULL stands once", "duckdp/compiler/relations/relation.py", "c.source in table.unique and c.null_value is None)", "c.source in table.unique)", _T_RELATIONS),
    Mutant("joins: what may be missing is never NULL", _DERIVED, "return replace(column, nullable=True, domain=domain)", "return replace(column, domain=domain)", _T_RELATIONS),
    Mutant("matches: units not compared", _MATCHED, 'else [f"other.{UNIT} = base.{UNIT}"]', 'else ["TRUE"]', _T_RELATIONS),
    Mutant("matches: all values meet what is computed of them", _MATCHED, "        if isinstance(part.arguments[own], ColumnRef):\n", "        if True:\n", _T_FLAGS),
    Mutant("flags: rows of which one stays", _MATCHED, "if exists and flag is None else table.units_cap", "if exists else table.units_cap", _T_FLAGS),
    Mutant("flags: told of the rows that are chosen", _MATCHED, "conditions += [] if self.flag is not None else", "conditions += [] if False else", _T_FLAGS),
    Mutant("flags: constants of what nobody reads", _MATCHED, "told = self.flag is None or len(shown_columns) < len(columns_)", "told = True", _T_FLAGS),
    Mutant("flags: constants of public rows that nobody reads", "duckdp/compiler/relations/with_public.py", "        if flag is not None and flag not in wanted:", "        if False:", _T_FLAGS),
    Mutant("flags: IN that is never NULL", "duckdp/compiler/relations/joining_public.py", 'nullable=how == "listed")', "nullable=False)", _T_FLAGS),
    Mutant("flags: pairs without a unit", _CHOOSING, "        if units:\n            return found\n", "        if True:\n            return found\n", _T_FLAGS),
    Mutant("flags: a value of the row read in the subquery", _JOINING, "reader(around)(value), reader(own)(column)", "reader(own)(value), reader(own)(column)", _T_FLAGS),
    Mutant("flags: shown by a star", "duckdp/compiler/scope.py", "if isinstance(star, exp.Column) else list(self.shown)", "if isinstance(star, exp.Column) else list(self.named)", _T_FLAGS),
    Mutant("flags: named by the analyst", "duckdp/compiler/relations/subqueries.py", "            if str(node.this).startswith(FLAG):\n", "            if False:\n", _T_FLAGS),
    Mutant("windows: frames of values ordered in full", _WINDOW_CALLS, ' and self.counts == "rows"\n', "\n", _T_WINDOWS),
    Mutant("windows: the row itself is passed over", _WINDOWING, "window.ignores and number != 0", "window.ignores", _T_WINDOWS),
    Mutant("units: halves of all DECIMALs are rounded alike", "duckdp/compiler/relations/unit_groups.py", "short = of.digits + of.scale <= SHORT_DIGITS and", "short = False and", _T_WINDOWS),
    Mutant("windows: NULLs are not passed over", _WINDOW_CALLS, 'pick += "" if window.ignores else "_null"', 'pick += "_null"', _T_WINDOWS),
    Mutant("windows: frames of one kind", _WINDOW_CALLS, '"days": "RANGE", "groups": "GROUPS"}', '"days": "RANGE", "groups": "ROWS"}', _T_WINDOWS),
    Mutant("windows: a name without its frame", _WINDOWING, "return base[0], own[1] or base[1], own[2] or base[2]", "return base[0], own[1] or base[1], own[2]", _T_WINDOWS),
    Mutant("matches: all pairs of a unit's rows", _MATCHED, "        return kept_rows(rows_of_unit(self.table), self.other.rows)", "        return None, None", _T_RELATIONS),
    Mutant("matches: any condition will do", _JOINING, "if said is not None and not (pairs is not None and pairs.tied) and not self.ties(rows, inner, said):", "if False:", _T_RELATIONS),
    Mutant("unions: rows of one branch bound a unit", _STACKED, "max_rows=min(sum(t.max_rows for t in tables), most)", "max_rows=min(first.max_rows, most)", _T_STACKED),
    Mutant("unions: groups of one branch bound a unit", _STACKED, "max_groups=min(sum(t.max_groups for t in tables), most)", "max_groups=min(first.max_groups, most)", _T_STACKED),
    Mutant("unions: units of one branch", _STACKED, "row_cap=sum(t.row_cap for t in tables)", "row_cap=first.row_cap", _T_STACKED),
    Mutant("unions: equal rows once", _STACKED, "' UNION ALL '.join(branches)", "' UNION '.join(branches)", _T_STACKED),
    Mutant("unions: the bounds of one branch", _STACKED, "iv.hull(*(k.interval for k in known))", "known[0].interval", _T_STACKED),
    Mutant("unions: public rows", _STACKING, "        if view.table.public is not None:\n", "        if False:\n", _T_STACKED),
    Mutant("unions: a unit beside values", _STACKING, "            if flag is None and not is_null(value):\n", "            if False:\n", _T_STACKED),
    Mutant("unions: rows that are units", _STACKING, "        if view.table.unit_key is None:\n", "        if False:\n", _T_STACKED),
    Mutant("unions: keys of two types", _STACKING, "        if view.table.unit_type != first.table.unit_type:\n", "        if False:\n", _T_STACKED),
    Mutant("windows: values are found among all units", _WINDOW_CALLS, """parts = f"PARTITION BY {', '.join([f'w.{UNIT}', *map""", """parts = f"PARTITION BY {', '.join(['1', *map""", _T_WINDOWS),
    Mutant("windows: rows that are passed over are looked at by each", _WINDOW_CALLS, "        return self.ignores or (", "        return (", _T_WINDOWS),
    Mutant("windows: rows of all units", _WINDOW_CALLS, """parts = [f"PARTITION BY {', '.join([f'w.{UNIT}', *map""", """parts = [f"PARTITION BY {', '.join(['1', *map""", _T_WINDOWS),
    Mutant("windows: any partition will do", _WINDOWING, "        if not any(self.scope.is_unit(p) for p in by):\n", "        if False:\n", _T_WINDOWS),
    Mutant("windows: ties as they lie", _WINDOW_CALLS, '*(["w.place"] if window.is_placed else [])', "", _T_WINDOWS),
    Mutant("windows: places by one column", _WINDOWED, "for name in sorted(own))", "for name in sorted(own)[:1])", _T_WINDOWS),
    Mutant("windows: no clamp to what is claimed", _WINDOWED, "print_derived(c, f'g.r{i}', parameters)", "f'g.r{i}'", _T_WINDOWS),
    Mutant("windows: frames are never empty", _WINDOWED, "        if not window.may_be_empty:\n            return column\n", "        if True:\n            return column\n", _T_WINDOWS),
    Mutant("windows: rows that are units", _WINDOWING, "        if rows.table.unit_key is None:\n", "        if False:\n", _T_WINDOWS),
    Mutant("windows: any form", _WINDOWING, 'or not fits or spec.args.get("exclude") or crossed:', "or not fits or crossed:", _T_WINDOWS),
    Mutant("windows: the last of rows that tie", _WINDOWING, 'if function in ("last_value", "nth_value") and frame is None and not (ignores and function == "last_value"):', "if False:", _T_WINDOWS),
    Mutant("windows: a condition that may hold bounds rows", _NARROWED, 'if isinstance(expr, Call) and row_of(expr).role == "conjunction":', "if isinstance(expr, Call) and not expr.operator.split('_')[0] in (*_TURNED, 'in', 'between'):", _T_WINDOWS),
    Mutant("links: keys are unique by word alone", "duckdp/vault/linking.py", "    if not once:\n", "    if False:\n", ("tests/test_linking.py",)),
    Mutant("parts: rows of other parts are taken", "duckdp/vault/part_work.py", "if work.placed and not _all_of(batch.column(PLACE), part):", "if False:", ("tests/test_spark_parts.py",)),
    Mutant("parts: any version of DuckDB", "duckdp/vault/part_work.py", "    if duckdb.__version__ != work.version:\n", "    if False:\n", ("tests/test_spark_parts.py",)),
    Mutant("parts: two keys on one relation", "duckdp/vault/spark_parts.py", "if found.setdefault(place, owner) != owner:", "if found.setdefault(place, owner) is None:", ("tests/test_spark_parts.py",)),
    Mutant("parts: a worker says what failed", "duckdp/vault/part_work.py", "            yield from packed(read_part(work, batches, part), part)\n        except Exception as error:", "            yield from packed(read_part(work, batches, part), part)\n        except OSError:", ("tests/test_spark_parts.py",)),
    Mutant("parts: a task's memory", "duckdp/vault/part_work.py", ', "memory_limit": memory}', "}", ("tests/adversary/test_out_of_memory.py",)),
    Mutant("memory: as any failure", "duckdp/vault/engine.py", '"E104" if ran_out(error)', '"E101" if ran_out(error)', ("tests/adversary/test_out_of_memory.py",)),
    Mutant("memory: words within a message", "duckdp/vault/exhausted.py", "_SAID.match(", "_SAID.search(", ("tests/adversary/test_out_of_memory.py",)),
    Mutant("memory: a full disk", "duckdp/vault/exhausted.py", "|(IO Error: )?Could not write file", "", ("tests/adversary/test_out_of_memory.py",)),
    Mutant("memory: of Python", "duckdp/desk/laundering.py", "    if ran_out:", "    if False:", ("tests/adversary/test_out_of_memory.py",)),
    Mutant("memory: called damage", "duckdp/vault/decoding.py", "    if ran_out(message):\n", "    if False:\n", ("tests/adversary/test_out_of_memory.py",)),
    Mutant("engine: a source that changes meanwhile", "duckdp/vault/engine.py", "        if stamp != self.source.stamp():\n", "        if False:\n", ("tests/test_changed_sources.py",)),
    Mutant("parts: a file twice", "duckdp/vault/spark_plans.py", "if len(set(known)) < len(known) or local > 1:", "if local > 1:", ("tests/test_spark_parts.py",)),
    Mutant("links: a child is looked at alone", "duckdp/vault/linking.py", "    while below.link is not None:  # whatever", "    while False:  # whatever", ("tests/test_linking.py",)),
    Mutant("outer: whatever it unfolds to", "duckdp/compiler/outer/apart.py", "    require_small(outer, text)\n", "", ("tests/compiler/test_outer.py",)),
    Mutant("changed sources: a view of the owner's runs", "duckdp/vault/linking.py", "    if table.relation not in engine.source.relations(engine.schema_cursor()).values():\n", "    if False:\n", ("tests/test_changed_sources.py",)),
    Mutant("changed sources: keys of any type", "duckdp/vault/linking.py", "            if types.get(column) != link.type:\n", "            if False:\n", ("tests/test_changed_sources.py",)),
    Mutant("changed sources: keys that a collation makes one", "duckdp/vault/linking.py", "    if key_type.upper() == \"VARCHAR\" and engine", "    if False and engine", ("tests/test_changed_sources.py",)),
    Mutant("dates as texts: of any length", "duckdp/compiler/operators/row.py", "    return f\"system.main.left({sql}, {MAX_TEXT})\"", "    return sql", ("tests/compiler/test_extreme_values.py",)),
    Mutant("links: keys as they are cleaned", "duckdp/vault/engine.py", "count(*) = count(DISTINCT k) AND count(*) = count(DISTINCT v)", "count(*) = count(DISTINCT k)", ("tests/test_linking.py",)),
    Mutant("links: keys of rows of before", "duckdp/vault/dataset.py", "if checks and base.checked != self._fingerprint:", "if False:", ("tests/test_linking.py",)),
    Mutant("links: parents that change alone", "duckdp/vault/protection.py", "    made |= relinked(standing, made)\n", "", ("tests/test_linking.py",)),
    Mutant("links: parents that leave", _CURATOR, "        require_unlinked(self.tables, table.lower())\n", "", ("tests/test_linking.py",)),
    Mutant("links: any two keys", _JOINING, "if key is not None and key == right.key(two) and", "if key is not None and right.key(two) and", ("tests/compiler/test_links.py",)),
    Mutant("links: another way to a unit after charges", "duckdp/catalog/units.py", "    if table.link is not None:  # another way to a unit, whatever it is called\n", "    if False:\n", ("tests/test_linking.py",)),
    Mutant("public: a row counts once however many it meets", _WITH_PUBLIC, '    times = {"inner": repeats, "left": max(1, repeats)}.get(how, 1)', "    times = 1", _T_PUBLIC),
    Mutant("public: columns equal to each other are fixed", _WITH_PUBLIC, "if isinstance(of, ColumnRef) and not {c.name for c in columns(other)} & set(there):", "if isinstance(of, ColumnRef):", _T_PUBLIC),
    Mutant("public: every comparison is an equality", _WITH_PUBLIC, "if not isinstance(part, Call) or not row_of(part).equates:", "if not isinstance(part, Call):", _T_PUBLIC),
    Mutant("public: rows that are units are repeated", _JOINING_PUBLIC, "if joins and rows.table.unit_key is None and looked > 1:", "if False:", _T_PUBLIC),
    Mutant("public: other rows, the same question", _WITH_PUBLIC, '"digest": public.digest}', '"digest": ""}', _T_PUBLIC),
    Mutant("public: a joined total is known", _PLAN, "everyone = everyone and not isinstance(query.table, Relation)", "everyone = bool(everyone)", _T_PUBLIC),
    Mutant("public: rows that nobody has are counted", _FILLED, "        if scope.mark(inner) is not None or not null_with(row(inner)) - filled - told:\n", "        if False:\n", _T_PUBLIC),
    Mutant("public: rows that nobody has are told of", _FILLED, " - filled - told:", " - filled:", _T_FLAGS),
    Mutant("public: figures of rows of before", "duckdp/vault/dataset.py", "if base.public is not None and base.public.source != self._fingerprint:", "if False:", _T_PUBLISHING),
    Mutant("public: what was charged is published", "duckdp/vault/publishing.py", "if other.public is None and (row.active or row.charged):", "if other.public is None and row.active:", _T_PUBLISHING),
    Mutant("public: both kinds at once", "duckdp/vault/protection.py", "if other.name == table.name or other.relation == table.relation:", "if other.name == table.name:", _T_PUBLISHING),
    Mutant("scalars: options without a rule", _SCALARS, "        if any(v for k, v in node.args.items() if k not in allowed):\n", "        if False:\n", ("tests/compiler/test_rules.py::test_an_argument_that_has_no_rule_is_not_left_out",)),
    Mutant("views: clauses without a rule", _VIEWS, 'if any(v for k, v in body.args.items() if k not in ("expressions", "from_", "where")):', "if False:", ("tests/compiler/test_rules.py::test_a_view_of_rows_has_no_clause_but_where",)),
    Mutant("views: macros that win", _VIEWS, "        if macros:\n", "        if False:\n", _T_VIEWS),
    Mutant("views: predicates without a rule", _VIEWS, "            read_predicate(parse_scalar(self.filter), stand_in, self.filter)\n", "            pass\n", _T_VIEWS),
    # ---- what is known without data
    Mutant("facts: NaN stays", _SCALARS, "if self.rows and may_be_nan(call) else call", "if False else call", _T_FACTS),
    Mutant("facts: 0 / 0 is a number", _ARITHMETIC, "undefined=lambda a, b: (_zero(a) and _zero(b)) or (not a.finite and not b.finite)", "undefined=lambda a, b: not a.finite and not b.finite", _T_FACTS),
    Mutant("facts: infinity less infinity is a number", _ARITHMETIC, "undefined=lambda a, b: not a.finite and not b.finite,", "undefined=lambda a, b: False,", ("tests/compiler/test_rules.py::test_what_is_undefined_is_null",)),
    Mutant("facts: remainders of 0 are numbers", _ARITHMETIC, "undefined=lambda a, b: _zero(b) or not a.finite", "undefined=lambda a, b: not a.finite", _T_FACTS),
    Mutant("facts: what is NULL for NaN is never NULL", _CASTS, "        interval=lambda a, _: a[0].interval,\n        integral=keeps_whole,\n        nullable=always,\n", "        interval=lambda a, _: a[0].interval,\n        integral=keeps_whole,\n", (*_T_FACTS, "tests/compiler/test_sensitivity.py")),
    Mutant("facts: nullif is never NULL", _CONDITIONAL, "            nullable=always,\n", "", (*_T_FACTS, "tests/compiler/test_sensitivity.py")),
    Mutant("facts: CASE without ELSE is never NULL", _FACTS, "nullable = default is None or any(", "nullable = any(", ("tests/compiler/test_rules.py::test_case_without_else_may_be_null",)),
    Mutant("facts: any bounds of a root", _SCALARS, "if operator.domain is not None and not self.released and leaves(args[0], operator.domain):", "if False:", ("tests/compiler/test_rules.py::test_a_function_that_fails_somewhere_wants_bounds",)),
    Mutant("facts: last digits leave no domain", "duckdp/compiler/partial.py", "for e in (expr, exact(expr))]", "for e in (expr,)]", ("tests/compiler/test_meaning.py::test_no_number_leaves_a_domain_by_its_last_digit",)),
    Mutant("facts: what is rounded is not looked at", "duckdp/compiler/partial.py", "        found = found.arguments[0]", "        break", ("tests/compiler/test_meaning.py::test_no_number_leaves_a_domain_by_its_last_digit",)),
    Mutant("zeros: a cast hides them", "duckdp/compiler/zeros.py", "unsigned=_unsigned(type_of(number))", "unsigned=False", ("tests/compiler/test_meaning.py::test_whole_numbers_and_decimals_have_no_minus_zero",)),
    Mutant("types: CASE begins with THEN", "duckdp/compiler/types.py", "[*([] if default is None else [default]), *values]", "[*values, *([] if default is None else [default])]", ("tests/compiler/test_meaning.py::test_the_chosen_of_wide_decimals_is_rounded_as_duckdb_does",)),
    Mutant("facts: greatest of what may be NULL", _CONDITIONAL, "max((s.lower for s in sure), default=lowest)", "max(s.lower for s in spans)", _T_FACTS),
    Mutant("facts: columns are never NULL", _FACTS, "return Facts(c.interval, c.integral, c.nullable, whole, days)", "return Facts(c.interval, c.integral, False, whole, days)", ("tests/compiler/test_sensitivity.py", *_T_FACTS)),
    Mutant("rows: any operator is a part of a date", _NODES, 'for row in ROWS if row.reading == "part" for name in', "for row in ROWS for name in", _T_ROWS),
    Mutant("rows: a product is enclosed as a sum", _ARITHMETIC, "sp.product(a[0], a[1])", "a[0] + a[1]", _T_ROWS),
    Mutant("rows: quotients are entire", _ARITHMETIC, "entire=lambda call: isinstance(call.arguments[1], Literal)", "entire=always", _T_ROWS),
    Mutant("rows: the mean has no slope by the count", _SIMPLEX, "mean_gradient=(first - inside * mean) / safe", "mean_gradient=first / safe", _T_ROWS),
    Mutant("rows: variances of a sample as of all", _AGGREGATES, "n = np.where(found.count > 1, found.count, np.nan) if sample else found.count\n        factor = n / (n - 1) if sample else np.ones_like(n)", "n = found.count\n        factor = np.ones_like(n)", _T_ROWS),
    Mutant("printing: instants in the session's zone", _PRINT, "    if column.type.upper() == ZONED:", "    if False:", ("tests/test_zoned.py",)),
    # ---- domains that follow
    Mutant("ruled out: by conditions of other columns", _RULED_OUT, "if read.issuperset(n.name for n in columns(c)) and columns(c)]", "if columns(c)]", _T_RULED_OUT),
    Mutant("ruled out: the label for other values", _RULED_OUT, "if v in left or (v == key.other and v is not None))", "if v in left)", _T_RULED_OUT),
    Mutant("ruled out: functions of values outside a domain", _RULED_OUT, "return column.domain if alone else None", "return column.domain", _T_RULED_OUT),
    Mutant("ruled out: a NULL that is a group", _RULED_OUT, "found |= {None} if True in image(without, atoms) else set()", "pass", _T_RULED_OUT),
    Mutant("ruled out: a list without values", _RULED_OUT, "found.complete and found.values else None", "found.complete else None", _T_RULED_OUT),
    Mutant("ruled out: an end that belongs to it", _RULED_OUT, '"le": lambda given, _: (None, given[0]),', '"le": lambda given, kind: (None, _next(given[0], kind, up=False)),', _T_RULED_OUT),
    Mutant("domains: the last period is left out", _DOMAINS, "following <= last:", "following < last:", _T_DOMAINS),
    Mutant("domains: coalesce keeps NULL", _DOMAINS, "            values.pop(None, None)", "            pass", ("tests/compiler/test_rules.py::test_coalesce_leaves_no_null",)),
    Mutant("domains: a comparison's NULL is left out", _DOMAINS, "with_null = nullable and _lists_null(expr)", "with_null = False", _T_DOMAINS),
    Mutant("domains: any NULL is a group", _DOMAINS, "with_null = nullable and _lists_null(expr)", "with_null = nullable", _T_DOMAINS),
    Mutant("domains: of any size", _DOMAINS, "or len(values) > (MAX_IMPLIED if implied else MAX_TRIED):", "or False:", ("tests/compiler/test_rules.py::test_a_domain_that_is_implied_has_a_size",)),
    Mutant("domains: whole numbers by their lower end", _DOMAINS, "return tuple(range(low, high + 1)) if high - low < MAX_IMPLIED else None\n\n\ndef _of_shifted", "return tuple(range(low, high)) if high - low < MAX_IMPLIED else None\n\n\ndef _of_shifted", _T_DOMAINS),
    # ---- caps
    Mutant("caps: numbers of a statement", _PLAN, "if size is not None and size * (cells + outputs) > MAX_CELLS:", "if False:", ("tests/test_caps.py::test_hidden_cells_count_too",)),
    Mutant("caps: fresh answers at no cost", _DESK, "        fresh = fresh and task.loss != Loss(epsilon_nano=0)\n", "", _T_CAPS),
    Mutant("caps: stored texts", "duckdp/texts.py", "    if len(text) > MOST_STORED:\n", "    if False:\n", _T_CAPS),
    # ---- grants before what is remembered
    Mutant("grants: remembered answers", _BINDER, "            desk.require_grant()\n            with self._turn(token):", "            with self._turn(token):", _T_GRANTS),
    Mutant("grants: binding", _BINDER, "            desk.require_grant()\n            _require_short", "            _require_short", _T_GRANTS),
    Mutant("grants: at once", _BINDER, "                desk.require_grant()\n                planned", "                planned", ("tests/serve/test_at_once.py::test_who_has_no_grant_any_more_is_refused",)),
    Mutant("grants: ordinary statements of a session", _SESSION, "        self.desk.require_grant()\n        if not isinstance(text, str)", "        if not isinstance(text, str)", _T_GRANTS),
    Mutant("grants: new sessions", _CURATOR, 'self.ledger.require_open(check_name(analyst, "analyst"))\n', "pass\n", (*_T_GRANTS, "tests/test_owner.py")),
    Mutant("grants: where the ledger lies", _BINDER, 'return str(error).replace(path, "...") if path else str(error)', "return str(error)", _T_GRANTS),
    Mutant("texts: places within characters", "duckdp/compiler/text_nodes.py", '_WITHIN = ("\\\\C", "\\\\B")', '_WITHIN = ("\\\\C",)', ("tests/compiler/test_totality.py::test_no_regular_expression_fails_on_a_text",)),
    # ---- fronts
    Mutant("front: not locked", _FRONT, "        for lock in LOCKS:\n            self._con.execute(lock)\n", "", _T_FRONT),
    Mutant("front: settings may change", _FRONT, ', "SET lock_configuration = true")', ")", _T_FRONT),
    Mutant("front: frames are searched", _FRONT, '    "python_enable_replacements": "false",\n    "python_scan_all_frames": "false",\n', "", _T_FRONT),
    Mutant("front: any error is told", _GUARDED, "return text if isinstance(error, USER_FACING) and not _MACHINE.search(shown) else WITHHELD", "return text", _T_FRONT),
    Mutant("front: places in errors are told", _GUARDED, "isinstance(error, USER_FACING) and not _MACHINE.search(shown)", "isinstance(error, USER_FACING)", _T_FRONT),
    Mutant("front: errors of Python are told", _BINDER, 'return None, f"X101: {CODES[\'X101\']}."', 'import sys\n            return None, str(sys.exc_info()[1])', ("tests/test_front.py::test_what_fails_in_python_is_not_told",)),
    Mutant("front: a column by another function", _BINDER, "if not 0 <= index < len(answer) or answer[index].function != function:", "if not 0 <= index < len(answer):", ("tests/test_front.py", "tests/adversary/test_identity.py")),
    Mutant("front: one for all", _FRONT, "    elif not binder.speaks_for(desk):\n", "    elif False:\n", ("tests/test_register.py",)),
    # ---- free answers
    Mutant("routing: statements with a WHERE", _ROUTING, "    if query.where is not None:\n", "    if False:\n", _T_ROUTING),
    Mutant("routing: errors that are not proved", _ROUTING, "        if one.estimated:\n", "        if False:\n", _T_ROUTING),
    Mutant("routing: older declarations", _ROUTING, "    if any(known[c.name] != c for c in read):\n", "    if False:\n", _T_ROUTING),
    Mutant("routing: rows with a NULL elsewhere", _ROUTING, "        if others:\n", "        if False:\n", _T_ROUTING),
    Mutant("declarations: changed since the plan", _DATASET, "if self.known_of(state or self.ledger.state()).get(base.name) != base:", "if False:", ("tests/test_session.py", "tests/test_owner.py", "tests/test_declarations.py")),
    Mutant("kept plans: what is alike is equal", _REMEMBERED, "return tuple(zip(map(type, values), texts, strict=True))", "return tuple(values)", _T_REMEMBERED),
    Mutant("kept plans: of past declarations", "duckdp/desk/lookups.py", "(state.catalog_version, state.neighbours, key)", "key", _T_REMEMBERED),
    Mutant("kept answers: of another plan", _DESK, "(id(plan), done.payload, bars) if", "(0, done.payload, bars) if", _T_REMEMBERED),
    Mutant("kept answers: lists are shared", _DESK, "[c.copied() for c in columns]", "columns", _T_REMEMBERED),
)
