"""Changes that nobody could observe, or that cost no privacy, and why: listed so that nobody plants them again."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

# fmt: off
EQUIVALENT: tuple[tuple[Mutant, str], ...] = (
    (
        Mutant("rho_for: any rest", "duckdp/core/accountant.py", "return rest >= 0 and 4 *", "return 4 *", ()),
        "the bisection of rho_for never tries a rho above epsilon, so the rest is never negative",
    ),
    (
        Mutant("epsilon_for: rounds down", "duckdp/core/accountant.py", "root += root * root < square", "root += 0", ()),
        "only a sum in units of 1e-52 that ends on 43 zeros would show it, and ln(1/delta) is rounded up before",
    ),
    (
        Mutant("variate: laplace at the ends of cells", "duckdp/core/variates.py", "p = _CONTEXT.divide(Decimal(2 * a + 1),", "p = _CONTEXT.divide(Decimal(2 * a + 2),", ()),
        "a lattice of any offset meets the same bounds: the claim, of 2**-641, does not depend on it",
    ),
    (
        Mutant("tables: shares are rounded up", "duckdp/mechanisms/noisy_tables.py", "max(1, math.floor(part / whole * (STEPS - len(ideal))))", "1 + math.ceil(part / whole * STEPS)", ()),
        "shares are divided by the sum of all parts where that is more than STEPS, so they add up to at most 1 either way",
    ),
    (
        Mutant("choice: ties by place", "duckdp/mechanisms/noisy_maximum.py", "noisy = [(q + noise, orders[_PLACE * k : _PLACE * (k + 1)])", 'noisy = [(q + noise, b"")', ()),
        "the proof holds for every order that no private value sets; the random one is fair among ties, no more private",
    ),
    (
        Mutant("scope: rows of a star", "duckdp/compiler/scope.py", "if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):", "if False:", ()),
        "a star is refused all the same, as a node without a rule; only the words are another's",
    ),
    (
        Mutant("links: orphans are somebody's", "duckdp/compiler/printing.py", 'relation += f" JOIN {named} ON', 'relation += f" LEFT JOIN {named} ON', ()),
        "rows that name nobody have a NULL as their unit, and such rows are dropped at the scan",
    ),
    (
        Mutant("quantile: no clamp to the grid", "duckdp/compiler/quantile.py", "(CASE WHEN {raw} >= {cells} THEN {cells} WHEN", "(CASE WHEN", ()),
        "values are within the column's bounds by then (compiler/printing.py), and the mechanism's SQL moves them into the grid",
    ),
    (
        Mutant("identity: mechanism left out", "duckdp/desk/charging.py", "[task.canonical, state.data_version, task.mechanism, *beside]", "[task.canonical, state.data_version, *beside]", ()),
        "every canonical text tells the mechanism: no two tasks of one text have two (tests/privacy/test_identities.py)",
    ),
    (
        Mutant("identity: domains of keys left out", "duckdp/compiler/plan.py", "[[show(k.expr), digest_domain(k.domain), repr(k.other)] for k in self.query.keys]", "[[show(k.expr)] for k in self.query.keys]", ()),
        "a key's domain follows from its expression and the declaration, which are in the text; it is there for later versions",
    ),
    (
        Mutant("shares: parts of the largest", "duckdp/smooth/shares.py", "np.floor(share / share.sum() * _STEPS * (1 - 1e-9))", "np.floor(share / share.max() * _STEPS)", ()),
        "parts that add up to more than the whole are divided by their sum, so the same shares come out",
    ),
    (
        Mutant("sum: range rounded inwards", "duckdp/compiler/measures.py", "math.floor(measure.lower * measure.steps), math.ceil(measure.upper * measure.steps)", "math.ceil(measure.lower * measure.steps), math.floor(measure.upper * measure.steps)", ()),
        "what clamps a row's value and what bounds its change are one range: less than a step of accuracy is lost",
    ),
    (
        Mutant("keys: the threshold of another noise", "duckdp/compiler/plan.py", "tau = threshold(noises[0],", "tau = threshold(noises[-1] or noises[0],", ()),
        "units change by 1, anything else by as much or more, so its noise is no smaller and its threshold no lower",
    ),
    (
        Mutant("laplace: a share too small is 1e-9", "duckdp/mechanisms/additive.py", "        if min(shares) == 0:\n            raise ParameterError(\n                \"P101\", \"epsilon\", epsilon_nano / NANO, f", "        shares = [max(1, s) for s in shares]\n        if min(shares) == 0:\n            raise ParameterError(\n                \"P101\", \"epsilon\", epsilon_nano / NANO, f", ()),
        "a statement has at most 64 measures, none of which weighs less than 0.01, and at least 1,000 units of epsilon",
    ),
    (
        Mutant("emit: groups chosen by their size", "duckdp/compiler/emit.py", 'order = f"{draw}, ', 'order = f"c0_0 DESC, {draw}, ', ()),
        "which groups a unit keeps may follow from its own rows in any way; less fair, no less private",
    ),
    (
        Mutant("plan: a public count under add-remove", "duckdp/compiler/plan.py", "public_rows=everyone and neighbours is Neighbours.REPLACE", "public_rows=everyone", ()),
        "it keeps count(*) from sharing a measure, no more: what is public is decided by the relation, in bound_measure",
    ),
    (
        Mutant("smooth: the margin is found step by step", "duckdp/mechanisms/admissible_noise.py", "below = float(self.beta - _FLOAT_MARGIN)", "below = float(self.beta)", ()),
        "the loop behind it goes down to the margin all the same, one float at a time",
    ),
    (
        Mutant("release: cells beyond their range", "duckdp/compiler/release.py", "min(max(g[j], low), high) for j", "g[j] for j", ()),
        "noise is added to Python's integers, which have no range: an unclamped sum moves as far as the claim says, no more",
    ),
    (
        Mutant("emit: the middle cell not clamped", "duckdp/compiler/emit.py", 'f"system.main.least({middle}, {steps} - {square})"', "middle", ()),
        "where both parts round up, the third is above a half: on grids of 40 bits they never add up to more than the whole",
    ),
    (
        Mutant("moving: to an anchor that knows more", "duckdp/ledger/moving.py", "        store.anchors.require(tx, new, known)\n", "        pass\n", ()),
        "what moves the anchor asks the same of what it finds there, under its lock or before it gives a command the new one",
    ),
    (
        Mutant("token: of any analyst", "duckdp/front/binder.py", 'text = f"{self._open_desk().analyst}\\n{body}".encode()', "text = body.encode()", ()),
        "each instance speaks for one analyst, for life, and seals by 32 random bytes of its own",
    ),
    (
        Mutant("units: rows and keys side by side", "duckdp/catalog/units.py", "if (new.unit_key is None) != (old.unit_key is None):", "if False:", ()),
        "one of the two is of the kind row and has no type of key: as two kinds, or as two types, they are refused in other words",
    ),
    (
        Mutant("decoding: the beginning of a text", "duckdp/vault/decoding.py", "if kind[0] is Kind.TEXT:", "if False:", ()),
        "of a text private reads take the beginning, by the expression that is probed; its end, decoded here too, they never meet",
    ),
    (
        Mutant("decoding: a file is believed", "duckdp/vault/decoding.py", """con.execute(f"SET disabled_optimizers = '{','.join(BELIEVING)}'")""", "pass", ()),
        "on the connection of a Parquet source, which alone brings figures of its own, the same was set when it was attached",
    ),
    (
        Mutant("unit weights: of rows that are replaced", "duckdp/compiler/plan.py", 'if units.kind != "units" or plan.neighbours is not Neighbours.ADD_REMOVE or ', "if ", ()),
        "units that are rows, as replaced ones are, have one group each, and of one group there are no weights",
    ),
)
