"""Releases that go on question by question: interactive mechanisms. All functions run within a transaction.

One charge pays for all that such a mechanism will ever answer; how many steps that is, nobody knows beforehand. Each
step is a private read, its noise, and an output that is stored before it leaves.

Privacy:      what leaves an interaction, however often its holder was killed, interrupted or changed, has the law of
              one undisturbed run of the mechanism with the same questions; so the loss that was charged covers it.
Assumes:      the mechanism's loss holds for questions that are chosen one after another, seeing all outputs before; the
              output of a step follows from its question, the stored steps, a private read and fresh noise.
Proof sketch: (1) The secret state (of a sparse vector, its noisy threshold) is drawn before the charge, from public
              figures, and stored in the transaction that makes the charge: no answer exists that another one, or none,
              stands behind; and nothing replaces it but what a later step stores beside its output.
              (2) A step is stored (charge, number: PRIMARY KEY; append-only) in the transaction before its output
              leaves. What was stored is what leaves, now and whenever the question is asked again: whoever asks has
              read all steps, which the interaction's sealed row vouches for (their number and digest), and a question
              that is among them is not drawn; (charge, question) is UNIQUE besides. So no draw that may have been seen
              is ever drawn again.
              (3) A step is stored as the next one of those that its drawing knew (its number), by the holder of the
              present turn; what was drawn beside an unknown step, or by a holder who was taken for dead, is refused
              and never leaves. So the stored steps are those of one run, in one order.
              (4) A draw that was not stored left nothing but the time until then; drawing anew gives the same law.
Attempts:     those of a charge with one release are counted, since each may read the data and shows how long that took.
              Here no count would bound what time shows: whoever may ask a new question at no charge may look at the
              clock as often as they like. By (4) nothing else is won by an attempt that ended: what it could redraw is
              the noise of one step that nobody saw. That the time of drawing and storing is not hidden is said in the
              documentation, for all releases alike.
Secrets:      noise, and figures that were noised; never an exact figure of the data. They are in the ledger's file,
              which is the owner's, and in complete copies of it (backups), beside 128 random bits, so that their digest
              in the chain tells nothing of them. No listing, log, export, error or repr has them; :func:`past` gives
              them to who holds the present turn alone. With them the outputs are no longer private: a known threshold
              turns each "below" into a noisy comparison of its own. Keep the file from analysts.
"""

from __future__ import annotations

import secrets

from duckdp.core.steps import Steps, StoredStep
from duckdp.errors import BudgetError, InternalError, LedgerError, ParameterError
from duckdp.ledger import budgets, chain, charges, holders
from duckdp.ledger.charges import Pending
from duckdp.ledger.holders import Claim
from duckdp.ledger.seals import Damage, Row
from duckdp.ledger.tx import Tx
from duckdp.ledger.types import Charge, ChargeRequest
from duckdp.ledger.words import check_reason

MOST_STEPS = 100_000  # of one interaction: what it may take of the disk is bounded
MOST_KNOWN = 200  # releases whose steps a process remembers
MOST_KNOWN_STEPS = 4 * MOST_STEPS  # of all of them; those of the last one that was read, whatever their number
BY_MECHANISM = "the mechanism ended"


def take_up(tx: Tx, request: ChargeRequest, secret: str | None, claim: Claim | None = None) -> Charge | Pending:
    """See :meth:`duckdp.ledger.Ledger.take_up`; Pending: somebody else is going on with it."""
    dataset, analyst = budgets.require_open(tx, request.analyst)
    row = charges.find(tx, request.analyst, request.key)
    if row is None:
        if secret is None:
            raise InternalError("an interactive release that was to be gone on with is not there")
        charges.require_versions(dataset, request)
        charge = charges.enter(tx, request, dataset, analyst, claim)
        made = tx.insert("interaction", charge=charge.id, turn=1, holder=charges.by_id(tx, charge.id)["holder"])
        _append(tx, made, charge.analyst, StoredStep(question="", output="", secret=secret))
        return charge
    charges.require_same(row, request)
    found = _find(tx, row["id"])
    if found["ended"] is not None:
        return charges.as_charge(row, attempt=found["turn"])
    if _is_worked_on(tx, dataset["id"], found):
        return Pending(charge_id=row["id"])
    turn = found["turn"] + 1
    charge, holder = charges.hand_out(tx, dataset["id"], row, claim, attempt=turn)
    tx.change("interaction", found, ("charge",), turn=turn, holder=holder)
    chain.append(tx, "turn", request.analyst, {"charge": row["id"], "turn": turn, "holder": holder})
    return charge


def still_pending(tx: Tx, pending: Pending) -> bool:
    """Is somebody else still going on with it?"""
    row = _find(tx, pending.charge_id)
    return row["ended"] is None and _is_worked_on(tx, tx.dataset_id(), row)


class KnownSteps:
    """Steps of a few releases as they were read last, and vouched for then: of longer ones only what is new is read.

    They are append-only, so what was vouched for once is what is there: a row that is altered afterwards is not used
    any more. Where what is new does not go on from it, as after a backup was put into service, all are read again.
    """

    def __init__(self) -> None:
        self._by_charge: dict[int, tuple[str | None, Steps]] = {}

    def of(self, charge: int) -> tuple[str | None, Steps]:
        """(digest, steps) of a charge, secrets included while it goes on; none are known: (None, none)."""
        return self._by_charge.get(charge, (None, Steps()))

    def keep(self, charge: int, digest: str | None, steps: Steps) -> None:
        """What a transaction read that saw it committed."""
        self._by_charge.pop(charge, None)
        self._by_charge[charge] = (digest, steps)
        by_age = list(self._by_charge.items())
        many = sum(len(kept) for _, (_, kept) in by_age)
        for place, (oldest, (_, kept)) in enumerate(by_age[:-1]):
            if len(by_age) - place <= MOST_KNOWN and many <= MOST_KNOWN_STEPS:
                break
            self._by_charge.pop(oldest, None)
            many -= len(kept)


def past(tx: Tx, charge: Charge, known: KnownSteps | None = None) -> tuple[Steps, str | None]:
    """See :meth:`duckdp.ledger.Ledger.past`."""
    budgets.require_open(tx, charge.analyst)
    row = _find(tx, charge.id)
    if row["ended"] is None:
        _require_turn(tx, row, charge)
    return _steps_of(tx, row, known), row["ended"]


def answered(tx: Tx, charge_id: int, question: str, known: KnownSteps | None = None) -> str | None:
    """See :meth:`duckdp.ledger.Ledger.answered`."""
    row = _find(tx, charge_id)
    budgets.require_open(tx, charges.by_id(tx, charge_id)["analyst"])
    if tx.one("SELECT 1 FROM step WHERE charge = ? AND question = ?", charge_id, question) is None:
        return None
    return _steps_of(tx, row, known).output(question)


def store_step(tx: Tx, charge: Charge, number: int, step: StoredStep, *, last: bool) -> tuple[str, bool]:
    """See :meth:`duckdp.ledger.Ledger.store_step`."""
    budgets.require_open(tx, charge.analyst)
    row = _find(tx, charge.id)
    if row["ended"] is None:
        _require_turn(tx, row, charge)
    asked = tx.one("SELECT 1 FROM step WHERE charge = ? AND question = ?", charge.id, step.question) is not None
    if row["ended"] is not None or number != row["steps"] or asked:
        stored = _steps_of(tx, row).output(step.question)
        if stored is not None:  # by an attempt that was interrupted before it heard so
            return stored, False
        raise has_ended(charge.id) if row["ended"] is not None else _passed(tx, charge.id)
    if number >= MOST_STEPS:
        raise BudgetError(
            "B108",
            f"the interactive release of charge {charge.id} has answered {MOST_STEPS - 1:,} questions, the "
            "most that one may; what it answered is given again, free. A new one is charged.",
        )
    row = _append(tx, row, charge.analyst, step)
    if last:
        _end(tx, row, BY_MECHANISM)
    return step.output, True


def is_held(tx: Tx, charge: Charge) -> bool:
    """Whether others take the turn of a charge for one that goes on."""
    row = _find(tx, charge.id)
    held = row["turn"] == charge.attempt and row["ended"] is None and bool(row["holder"])
    return held and holders.seems_working(row["holder"], charge.id, tx.path)


def let_go(tx: Tx, charge: Charge) -> None:
    """See :meth:`duckdp.ledger.Ledger.let_go`."""
    row = _find(tx, charge.id)
    if (row["turn"], row["ended"]) == (charge.attempt, None):
        tx.change("interaction", row, ("charge",), holder="")
        chain.append(tx, "turn", charge.analyst, {"charge": charge.id, "turn": row["turn"], "holder": ""})


def end(tx: Tx, charge_id: int, reason: str, *, by_owner: bool = True) -> None:
    """See :meth:`duckdp.ledger.Ledger.end_interaction`."""
    check_reason(reason)
    row = _look_up(tx, charge_id)
    if row is None:
        raise ParameterError("P107", "charge", charge_id, "is no release that goes on question by question.")
    if row["ended"] is None:
        _end(tx, row, reason, by_owner=by_owner)


def end_all(tx: Tx, reason: str) -> None:
    """End all that go on: with steps that are missing here, they would answer the same questions by other draws."""
    for found in tx.rows("SELECT charge FROM interaction WHERE ended IS NULL"):
        _end(tx, _find(tx, found["charge"]), reason, by_owner=True)


def has_ended(charge_id: int) -> BudgetError:
    """The error for a new question to an interaction that is over."""
    return BudgetError(
        "B108",
        f"the interactive release of charge {charge_id} has ended; what it answered is given again, free. "
        "Begin a new one, which is charged, for new questions.",
    )


def _append(tx: Tx, row: Row, analyst: str, step: StoredStep) -> Row:
    sealed = None if step.secret is None else f"{secrets.token_hex(16)}:{step.secret}"
    values = (row["charge"], row["steps"], step.question, step.output, sealed)
    tx.later("INSERT INTO step (charge, number, question, output, secret) VALUES (?, ?, ?, ?, ?)", *values)
    digest = chain.digest(*values)
    chain.append(tx, "step", analyst, {"charge": row["charge"], "number": row["steps"], "digest": digest})
    stepped = chain.digest(row["stepped"], digest)
    return tx.change("interaction", row, ("charge",), steps=row["steps"] + 1, stepped=stepped)


def _steps_of(tx: Tx, row: Row, known: KnownSteps | None = None) -> Steps:
    """The steps of an interaction, as its row vouches for them; their secrets only while it goes on."""
    stepped, steps = (None, Steps()) if known is None else known.of(row["charge"])
    found = _read_on(tx, row, stepped, steps) or _read_on(tx, row, None, Steps())
    if found is None:
        raise Damage("a step of an interactive release was altered or is lost")
    if row["ended"] is not None:
        found = found.without_secrets()
    if known is not None:
        known.keep(row["charge"], row["stepped"], found)
    return found


def _read_on(tx: Tx, row: Row, stepped: str | None, steps: Steps) -> Steps | None:
    """All steps, of which the first are known; None: the row does not vouch for them."""
    rows = tx.rows("SELECT * FROM step WHERE charge = ? AND number >= ? ORDER BY number", row["charge"], len(steps))
    for found in rows:
        stepped = chain.digest(stepped, chain.stored_digest(*found))
    if (len(steps) + len(rows), stepped) != (row["steps"], row["stepped"]):
        return None
    return steps.and_then(
        StoredStep(
            question=found["question"],
            output=found["output"],
            secret=None if found["secret"] is None else found["secret"].partition(":")[2],
        )
        for found in rows
    )


def _end(tx: Tx, row: Row, why: str, *, by_owner: bool = False) -> None:
    tx.change("interaction", row, ("charge",), ended=why, holder="")
    charge = charges.by_id(tx, row["charge"])
    detail = {"charge": row["charge"], "why": why}
    chain.append(tx, "end" if by_owner else "ended", charge["analyst"], detail, why if by_owner else None)
    charges.note_release(tx, charge, '{"ended": true}')


def _look_up(tx: Tx, charge_id: int) -> Row | None:
    """The interactive release of a charge; each has a step from when on it is there."""
    row = tx.get("interaction", charge=charge_id)
    if row is None and tx.one("SELECT 1 FROM step WHERE charge = ?", charge_id) is not None:
        raise Damage("an interactive release is lost")
    return row


def _find(tx: Tx, charge_id: int) -> Row:
    row = _look_up(tx, charge_id)
    if row is None:
        raise InternalError(f"charge {charge_id} is no interactive release.")
    return row


def _is_worked_on(tx: Tx, dataset_id: str, row: Row) -> bool:
    held = (row["holder"], dataset_id, row["charge"], row["turn"], tx.thread, tx.path)
    return bool(row["holder"]) and holders.working(*held)


def _require_turn(tx: Tx, row: Row, charge: Charge) -> None:
    if row["turn"] != charge.attempt or not holders.is_mine(row["holder"]):
        raise is_held_elsewhere(charge.id, tx.path)


def is_held_elsewhere(charge_id: int, path: str) -> LedgerError:
    """The error for who would go on with an interaction that somebody else goes on with."""
    return LedgerError(
        "B206",
        f"somebody else is going on with the interactive release of charge {charge_id}, one at a time. "
        "Close it there, or end that process, and ask again.",
        path=path,
    )


def _passed(tx: Tx, charge_id: int) -> LedgerError:
    return LedgerError(
        "B206", f"another question to charge {charge_id} was answered meanwhile. Ask again.", path=tx.path
    )
