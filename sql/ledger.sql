-- duckdp ledger, version 1: one file is one data set. See duckdp/ledger/ for the code that writes it.
--
-- Privacy numbers are exact integers: epsilon in 1e-9, delta in 1e-18, rho in 1e-12. "primary" and "secondary" are the two
-- sums the accountant adds up (basic: epsilon and delta; zcdp: rho and the delta outside rho).
-- The table event is an append-only hash chain over everything that matters; the other tables are its readable state and
-- are compared with it at each opening. The head of the chain is repeated in the file <ledger>.anchor.
-- Read this file as you like (it is private: it holds statements and the salt); writing to it by hand makes it unusable.

-- The data set itself: exactly one row. The budget columns are NULL until the owner sets a budget.
CREATE TABLE dataset (
    one             INTEGER PRIMARY KEY CHECK (one = 1),
    id              TEXT    NOT NULL CHECK (length(id) = 32),
    salt            BLOB    NOT NULL CHECK (length(salt) = 16),
    neighbours      TEXT    CHECK (neighbours IN ('add_remove', 'replace')),
    accountant      TEXT    CHECK (accountant IN ('basic', 'zcdp')),
    epsilon_nano    INTEGER CHECK (epsilon_nano >= 0),
    delta_atto      INTEGER CHECK (delta_atto BETWEEN 0 AND 1000000000000000000),
    primary_limit   INTEGER NOT NULL DEFAULT 0 CHECK (typeof(primary_limit) = 'integer'),
    secondary_limit INTEGER NOT NULL DEFAULT 0 CHECK (typeof(secondary_limit) = 'integer'),
    primary_spent   INTEGER NOT NULL DEFAULT 0 CHECK (typeof(primary_spent) = 'integer' AND primary_spent >= 0),
    secondary_spent INTEGER NOT NULL DEFAULT 0 CHECK (typeof(secondary_spent) = 'integer' AND secondary_spent >= 0),
    frozen          TEXT,
    data_version    INTEGER NOT NULL DEFAULT 0,
    catalog_version INTEGER NOT NULL DEFAULT 0,
    source          TEXT,
    CHECK (primary_spent <= primary_limit),
    CHECK (secondary_spent <= secondary_limit)
);

-- Who may ask, and how much of the data set's budget each may use. The caps may add up to more than the total.
CREATE TABLE analyst (
    name            TEXT    PRIMARY KEY,
    epsilon_nano    INTEGER NOT NULL CHECK (epsilon_nano >= 0),
    delta_atto      INTEGER NOT NULL CHECK (delta_atto BETWEEN 0 AND 1000000000000000000),
    primary_limit   INTEGER NOT NULL CHECK (typeof(primary_limit) = 'integer'),
    secondary_limit INTEGER NOT NULL CHECK (typeof(secondary_limit) = 'integer'),
    primary_spent   INTEGER NOT NULL DEFAULT 0 CHECK (typeof(primary_spent) = 'integer' AND primary_spent >= 0),
    secondary_spent INTEGER NOT NULL DEFAULT 0 CHECK (typeof(secondary_spent) = 'integer' AND secondary_spent >= 0),
    revoked         TEXT,
    CHECK (primary_spent <= primary_limit),
    CHECK (secondary_spent <= secondary_limit)
);

-- Declarations of protected tables as JSON; each change of any table is a new version of the whole catalog.
CREATE TABLE catalog (
    name        TEXT    NOT NULL,
    version     INTEGER NOT NULL UNIQUE,
    declaration TEXT    NOT NULL,
    active      INTEGER NOT NULL CHECK (active IN (0, 1)),
    PRIMARY KEY (name, version)
);
CREATE UNIQUE INDEX catalog_active ON catalog (name) WHERE active = 1;

-- One row per charge. Only attempt, state and holder ever change; a failed read never takes a charge back.
-- The UNIQUE key makes equal questions one charge, however many processes ask at once.
CREATE TABLE charge (
    id              INTEGER PRIMARY KEY,
    analyst         TEXT    NOT NULL REFERENCES analyst (name),
    key             TEXT    NOT NULL,
    kind            TEXT    NOT NULL CHECK (kind IN ('query', 'summary', 'synthetic')),
    mechanism       TEXT    NOT NULL,
    parameters      TEXT    NOT NULL,
    statement       TEXT    NOT NULL,
    epsilon_nano    INTEGER NOT NULL CHECK (epsilon_nano >= 0),
    delta_atto      INTEGER NOT NULL CHECK (delta_atto >= 0),
    rho_pico        INTEGER NOT NULL CHECK (rho_pico >= 0),
    delta_zcdp_atto INTEGER NOT NULL CHECK (delta_zcdp_atto >= 0),
    primary_cost    INTEGER NOT NULL CHECK (typeof(primary_cost) = 'integer' AND primary_cost >= 0),
    secondary_cost  INTEGER NOT NULL CHECK (typeof(secondary_cost) = 'integer' AND secondary_cost >= 0),
    data_version    INTEGER NOT NULL,
    catalog_version INTEGER NOT NULL,
    at              TEXT    NOT NULL,
    attempt         INTEGER NOT NULL DEFAULT 1 CHECK (attempt BETWEEN 1 AND 3),
    state           TEXT    NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'failed', 'released')),
    holder          TEXT    NOT NULL,
    UNIQUE (analyst, key)
);

-- What left for a charge: at most one release, ever.
CREATE TABLE release (
    charge  INTEGER PRIMARY KEY REFERENCES charge (id),
    payload TEXT    NOT NULL
);

-- Names of summaries and synthetic tables; a name belongs to (analyst, name) and is never given to another release.
CREATE TABLE object (
    analyst TEXT    NOT NULL REFERENCES analyst (name),
    name    TEXT    NOT NULL,
    kind    TEXT    NOT NULL CHECK (kind IN ('summary', 'synthetic')),
    charge  INTEGER NOT NULL REFERENCES charge (id),
    PRIMARY KEY (analyst, name)
);

-- Which other analysts the owner lets read a named object.
CREATE TABLE share (
    analyst TEXT NOT NULL,
    name    TEXT NOT NULL,
    reader  TEXT NOT NULL REFERENCES analyst (name),
    PRIMARY KEY (analyst, name, reader),
    FOREIGN KEY (analyst, name) REFERENCES object (analyst, name)
);

-- The chain: hash = sha256(hash before, this row). Owner's actions stand in full, charges and releases by their digest.
CREATE TABLE event (
    seq     INTEGER PRIMARY KEY,
    at      TEXT NOT NULL,
    kind    TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail  TEXT NOT NULL,
    reason  TEXT,
    hash    TEXT NOT NULL CHECK (length(hash) = 64)
);

-- Slips of our own code fail here before they can rewrite history.
CREATE TRIGGER event_update BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER event_delete BEFORE DELETE ON event BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER release_update BEFORE UPDATE ON release BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER release_delete BEFORE DELETE ON release BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER charge_delete BEFORE DELETE ON charge BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER charge_update BEFORE UPDATE OF
    id, analyst, key, kind, mechanism, parameters, statement, epsilon_nano, delta_atto, rho_pico, delta_zcdp_atto,
    primary_cost, secondary_cost, data_version, catalog_version, at
ON charge BEGIN SELECT RAISE(ABORT, 'append-only'); END;
