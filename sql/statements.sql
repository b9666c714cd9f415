-- duckdp log of statements, version 1: what analysts asked that was not charged, <ledger>.statements beside the ledger.
-- See duckdp/ledger/statements.py. It holds texts, codes and times; never a value of the data or of an answer.
--
-- Each analyst's entries are a hash chain of their own: hash = sha256(hash before, this entry). When the log is full, the
-- oldest entries of whoever takes the most room go; the chain keeps how many those were, and the hash of the last of them.

-- Exactly one row: whose log this is, and how large it may grow.
CREATE TABLE log (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    dataset    TEXT    NOT NULL CHECK (length(dataset) = 32),
    most_rows  INTEGER NOT NULL,
    most_bytes INTEGER NOT NULL
);

-- An analyst's chain, from the entry after "trimmed" to entry "count"; the name '' stands for all who have no grant.
CREATE TABLE chain (
    analyst TEXT    PRIMARY KEY,
    trimmed INTEGER NOT NULL,
    before  TEXT    NOT NULL CHECK (length(before) = 64),
    count   INTEGER NOT NULL,
    hash    TEXT    NOT NULL CHECK (length(hash) = 64),
    bytes   INTEGER NOT NULL,
    CHECK (0 <= trimmed AND trimmed <= count)
);

-- kind: free, refused, failed (after its charge), lost (how many could not be noted). outcome: answered, explained,
-- stored (then charge says whose release), or the code of the error. at: when it was asked, UTC, whole seconds.
CREATE TABLE statement (
    seq     INTEGER PRIMARY KEY,
    chain   TEXT    NOT NULL REFERENCES chain (analyst),
    number  INTEGER NOT NULL,
    at      TEXT    NOT NULL,
    who     TEXT    NOT NULL,
    kind    TEXT    NOT NULL CHECK (kind IN ('free', 'refused', 'failed', 'lost')),
    text    TEXT    NOT NULL,
    outcome TEXT    NOT NULL,
    charge  INTEGER,
    hash    TEXT    NOT NULL CHECK (length(hash) = 64),
    UNIQUE (chain, number)
);
CREATE INDEX statement_at ON statement (at, seq);
CREATE TRIGGER statement_update BEFORE UPDATE ON statement BEGIN SELECT RAISE(ABORT, 'append-only'); END;
