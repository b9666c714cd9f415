"""AIM and MST, as OpenDP offers them, beside ``auto`` and ``tree``: same rows, ADD_REMOVE, epsilon and delta.

::

    pip install "opendp[mbi]" polars pandas       # an environment of its own, with duckdp: it brings jax
    python -m duckdp.bench.tables_peers --set CTG --method MST

Ours goes the product's way: rows in DuckDB, declared columns, ``plan_table`` and its stages, values in their own types.
The peers get the columns cut into bins (ten for a number); their rows are the bins' middles. Judged by the two-way
marginals of the binned columns (total variation, average of all pairs), the smooth queries, and the AUC of a logistic
regression that learns on the synthetic half and is tested on the real other one. A peer that runs out of its time is
ended and says so.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from duckdp.bench.measure import read_rows
from duckdp.bench.tables_data import DATA
from duckdp.bench.tables_peers_data import Case, adult, ctg, nursery
from duckdp.bench.tables_queries import area_under_curve, draw_queries, learn, worst_relative
from duckdp.core.accountant import rho_for
from duckdp.core.task import Stages
from duckdp.core.types import PICO, Neighbours, parse_delta, parse_epsilon
from duckdp.synthetic.asked import Asked
from duckdp.synthetic.methods import plan_table
from duckdp.synthetic.stored import read_synthesis
from duckdp.synthetic.unit.features import Floats
from duckdp.synthetic.unit.uniforms import uniforms

CASES = {"CTG": ctg, "ADULT": adult, "NUR": nursery}
METHODS = ("moments", "moments target", "auto", "auto target", "tree", "tree target", "MST", "AIM")
_ATTEMPTS = 4  # of a generator that fails now and then
Codes = NDArray[np.int64]


def marginal_error(first: Codes, second: Codes, sizes: Sequence[int]) -> float:
    """Average total variation distance of all two-way marginals."""
    found = []
    for i, j in combinations(range(len(sizes)), 2):
        cells = sizes[i] * sizes[j]
        one, two = (np.bincount(c[:, i] * sizes[j] + c[:, j], minlength=cells) / len(c) for c in (first, second))
        found.append(float(np.abs(one - two).sum() / 2))
    return float(np.mean(found))


def our_rows(case: Case, chosen: NDArray[np.intp], method: str, *, epsilon: str, delta: str, rows: int) -> Floats:
    """Unit rows by ``dp_synthesize``'s own way, over the chosen rows in DuckDB."""
    asked = Asked(
        table=case.table(len(chosen)),
        columns=None,
        epsilon_nano=parse_epsilon(epsilon),
        delta_atto=parse_delta(delta),
        neighbours=Neighbours.ADD_REMOVE,
        rows=rows,
        target=case.label if method.endswith("target") else None,
    )
    task = plan_table(asked, method.split()[0])
    with duckdb.connect(":memory:", config={"threads": 1}) as con:
        case.store(con, chosen)
        payload = task.work(1)(Stages(lambda query: read_rows(con, query)))
    return case.to_unit(read_synthesis(payload).columns)


def peer_rows(name: str, codes: Codes, sizes: Sequence[int], rho: float, rows: int) -> Codes:
    """Rows by AIM or MST, at rho of zCDP.

    Raises:
        SystemExit: the peers are not installed; the text says how.
    """
    try:
        import opendp.prelude as dp
        import polars as pl
        from opendp.extras import mbi
    except ImportError:
        raise SystemExit('the peers need: pip install "opendp[mbi]" polars pandas') from None
    dp.enable_features("contrib")
    names = [f"c{i}" for i in range(len(sizes))]
    frame: Any = pl.LazyFrame({n: codes[:, i] for i, n in enumerate(names)}, schema=dict.fromkeys(names, pl.Int64))
    context = dp.Context.compositor(
        data=frame,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
        split_evenly_over=1,
    )
    keys = {n: list(range(size)) for n, size in zip(names, sizes, strict=True)}
    algorithm = {"AIM": mbi.AIM, "MST": mbi.MST}[name]()
    table = context.query().contingency_table(keys=keys, algorithm=algorithm).release()
    made: Any = table.synthesize(rows=rows)
    made = made.collect() if hasattr(made, "collect") else made
    return np.column_stack([_without_null(made[n].to_numpy()) for n in names])


def limited_peer_rows(
    name: str, codes: Codes, sizes: Sequence[int], rho: float, rows: int, *, seconds: float
) -> Codes | None:
    """The same in a process of its own, ended after its time; None then, or where it failed."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send_peer_rows, args=(theirs, name, codes, sizes, rho, rows))
    process.start()
    theirs.close()
    found = None
    try:
        if ours.poll(seconds):
            found = ours.recv()
    except EOFError:
        found = None  # it ended by itself, without rows
    finally:
        process.kill()
        process.join()
    return found


def _send_peer_rows(pipe: Any, name: str, codes: Codes, sizes: Sequence[int], rho: float, rows: int) -> None:
    """MST's own shares add up to a rounding error more than its charge for some numbers of columns (41).

    Then a constant column of two codes goes with the others, and is left out again.
    """
    for attempt in range(_ATTEMPTS):
        try:
            wider = np.concatenate([codes, np.zeros((len(codes), attempt), dtype=np.int64)], axis=1)
            found = peer_rows(name, wider, [*sizes, *[2] * attempt], rho, rows)[:, : codes.shape[1]]
        except Exception as error:
            if "insufficient budget" not in str(error):
                raise
        else:
            pipe.send(found)
            return


def _without_null(values: NDArray[Any]) -> Codes:
    """Codes; the peers add a bin for null to every column, which here goes to the column's most frequent code."""
    known = np.array([v is not None and v == v for v in values.tolist()])
    usual = np.bincount(values[known].astype(np.int64)).argmax() if known.any() else 0
    return np.array([int(v) if k else usual for v, k in zip(values.tolist(), known, strict=True)], dtype=np.int64)


def compare(
    case: Case, methods: Sequence[str], *, epsilon: str, delta: str, rows: int, queries: int, limit: float
) -> Iterator[str]:
    """One line per method: two-way error, query errors, AUC, seconds; learnt on one half, which queries are about."""
    order = np.argsort(uniforms(1, case.rows)[0])
    half = case.rows // 2
    train, test = case.unit[order[:half]], case.unit[order[half:]]
    asked = draw_queries(train.shape[1], queries)
    truth, codes = asked.answers(train), case.encode(train)
    yield f"n={half} d={train.shape[1]} columns={len(case.sizes)} epsilon={epsilon} delta={delta} m={rows}"

    def judge(name: str, made: Floats, seconds: float) -> str:
        error = marginal_error(codes, case.encode(made), case.sizes)
        return _line(name, error, worst_relative(asked.answers(made), truth), _area(made, test), seconds)

    yield judge("other half", test, 0.0)
    for name in methods:
        start = time.perf_counter()
        if name in ("MST", "AIM"):
            rho = rho_for(parse_epsilon(epsilon), parse_delta(delta)) / PICO  # the same conversion for all
            found = limited_peer_rows(name, codes, case.sizes, rho, rows, seconds=limit)
            if found is None:
                yield f"  {name:14s} no rows after {time.perf_counter() - start:.0f} s (limit {limit:.0f} s)"
                continue
            made = case.decode(found)
        else:
            made = our_rows(case, order[:half], name, epsilon=epsilon, delta=delta, rows=rows)
        yield judge(name, made, time.perf_counter() - start)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the comparison with other generators of synthetic tables."""
    parser = argparse.ArgumentParser(prog="duckdp.bench.tables_peers", description="AIM and MST beside auto and tree.")
    parser.add_argument("--set", action="append", choices=list(CASES), help="CTG and ADULT by default")
    parser.add_argument("--method", action="append", choices=list(METHODS), help="all by default")
    parser.add_argument("--epsilon", action="append", help="1 by default")
    parser.add_argument("--delta", default="1e-6")
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--limit", type=float, default=1200.0, help="seconds for a peer")
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args(argv)
    for name in options.set or ["CTG", "ADULT"]:
        case = CASES[name](options.data)
        for epsilon in (options.epsilon or ["1"]) * options.rounds:
            sys.stdout.write(f"{name} ")
            for line in compare(
                case,
                options.method or METHODS,
                epsilon=epsilon,
                delta=options.delta,
                rows=options.rows,
                queries=options.queries,
                limit=options.limit,
            ):
                sys.stdout.write(line + "\n")
                sys.stdout.flush()
    return 0


def _area(train: Floats, test: Floats) -> float:
    if np.all(train[:, -1] > 0) or np.all(train[:, -1] <= 0):
        return 0.5
    return area_under_curve(test[:, :-1] @ learn(train), test[:, -1])


def _line(name: str, two_way: float, errors: Floats, area: float, seconds: float) -> str:
    cells = " ".join(f"{v:7.4f}" for v in errors)
    return f"  {name:14s} two-way {two_way:.4f}  queries {cells}  AUC {area:.3f}  {seconds:.1f} s"


if __name__ == "__main__":
    raise SystemExit(main())
