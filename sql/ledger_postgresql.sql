-- duckdp ledger in PostgreSQL: one schema is one data set. See duckdp/ledger/ for the code that writes it.
--
-- The tables are those of a ledger file at version 4 (ledger.sql to ledger_4.sql, where their columns are explained), with
-- the same columns in the same order: seals and the hash chain are over the same values, so a ledger that is copied from
-- here into a file is that ledger. Texts are compared byte by byte (COLLATE "C"). Beside them stands the log of statements
-- (statements.sql). Read it as you like (it is private: it holds statements, the salt and the secrets of interactive
-- releases); writing to it by hand makes it unusable.
--
-- Whoever writes locks the one row of "dataset" first, so all that is charged is charged one after another.

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN RAISE EXCEPTION USING ERRCODE = ''DDP01'', MESSAGE = ''append-only''; END';

CREATE TABLE dataset (
    one             BIGINT  PRIMARY KEY CHECK (one = 1),
    id              TEXT    COLLATE "C" NOT NULL CHECK (length(id) = 32),
    salt            BYTEA   NOT NULL CHECK (length(salt) = 16),
    neighbours      TEXT    COLLATE "C" CHECK (neighbours IN ('add_remove', 'replace')),
    accountant      TEXT    COLLATE "C" CHECK (accountant IN ('basic', 'zcdp')),
    epsilon_nano    BIGINT  CHECK (epsilon_nano >= 0),
    delta_atto      BIGINT  CHECK (delta_atto BETWEEN 0 AND 1000000000000000000),
    primary_limit   BIGINT  NOT NULL DEFAULT 0,
    secondary_limit BIGINT  NOT NULL DEFAULT 0,
    primary_spent   BIGINT  NOT NULL DEFAULT 0 CHECK (primary_spent >= 0),
    secondary_spent BIGINT  NOT NULL DEFAULT 0 CHECK (secondary_spent >= 0),
    frozen          TEXT    COLLATE "C",
    data_version    BIGINT  NOT NULL DEFAULT 0,
    catalog_version BIGINT  NOT NULL DEFAULT 0,
    source          TEXT    COLLATE "C",
    events          BIGINT  NOT NULL DEFAULT 0,
    head            TEXT    COLLATE "C" NOT NULL DEFAULT '',
    actions         BIGINT  NOT NULL DEFAULT 0,
    charges         BIGINT  NOT NULL DEFAULT 0,
    declared        BIGINT  NOT NULL DEFAULT 0,
    charged         BIGINT  NOT NULL DEFAULT -1,
    read            TEXT    COLLATE "C",
    anchor          TEXT    COLLATE "C",
    backup          TEXT    COLLATE "C",
    seal            BYTEA   NOT NULL DEFAULT '',
    month           TEXT    COLLATE "C" NOT NULL DEFAULT '',
    reservations    BIGINT  NOT NULL DEFAULT 0,
    reserved        BIGINT  NOT NULL DEFAULT 0,
    CHECK (primary_spent <= primary_limit),
    CHECK (secondary_spent <= secondary_limit)
);

CREATE TABLE analyst (
    name                  TEXT    COLLATE "C" PRIMARY KEY,
    epsilon_nano          BIGINT  NOT NULL CHECK (epsilon_nano >= 0),
    delta_atto            BIGINT  NOT NULL CHECK (delta_atto BETWEEN 0 AND 1000000000000000000),
    primary_limit         BIGINT  NOT NULL,
    secondary_limit       BIGINT  NOT NULL,
    primary_spent         BIGINT  NOT NULL DEFAULT 0 CHECK (primary_spent >= 0),
    secondary_spent       BIGINT  NOT NULL DEFAULT 0 CHECK (secondary_spent >= 0),
    revoked               TEXT    COLLATE "C",
    charges               BIGINT  NOT NULL DEFAULT 0,
    seal                  BYTEA   NOT NULL DEFAULT '',
    teams                 TEXT    COLLATE "C" NOT NULL DEFAULT '[]',
    month                 TEXT    COLLATE "C" NOT NULL DEFAULT '',
    month_epsilon_nano    BIGINT,
    month_delta_atto      BIGINT,
    primary_month_limit   BIGINT,
    secondary_month_limit BIGINT,
    primary_month_spent   BIGINT  NOT NULL DEFAULT 0 CHECK (primary_month_spent >= 0),
    secondary_month_spent BIGINT  NOT NULL DEFAULT 0 CHECK (secondary_month_spent >= 0),
    CHECK (primary_spent <= primary_limit),
    CHECK (secondary_spent <= secondary_limit)
);

CREATE TABLE catalog (
    name        TEXT    COLLATE "C" NOT NULL,
    version     BIGINT  NOT NULL UNIQUE,
    declaration TEXT    COLLATE "C" NOT NULL,
    active      BIGINT  NOT NULL CHECK (active IN (0, 1)),
    until       BIGINT,
    charged     BIGINT  NOT NULL DEFAULT 0,
    seal        BYTEA   NOT NULL DEFAULT '',
    PRIMARY KEY (name, version)
);
CREATE UNIQUE INDEX catalog_active ON catalog (name) WHERE active = 1;

CREATE TABLE charge (
    id              BIGINT  PRIMARY KEY,
    analyst         TEXT    COLLATE "C" NOT NULL REFERENCES analyst (name),
    key             TEXT    COLLATE "C" NOT NULL,
    kind            TEXT    COLLATE "C" NOT NULL CHECK (kind IN ('query', 'summary', 'synthetic')),
    mechanism       TEXT    COLLATE "C" NOT NULL,
    parameters      TEXT    COLLATE "C" NOT NULL,
    statement       TEXT    COLLATE "C" NOT NULL,
    epsilon_nano    BIGINT  NOT NULL CHECK (epsilon_nano >= 0),
    delta_atto      BIGINT  NOT NULL CHECK (delta_atto >= 0),
    rho_pico        BIGINT  NOT NULL CHECK (rho_pico >= 0),
    delta_zcdp_atto BIGINT  NOT NULL CHECK (delta_zcdp_atto >= 0),
    primary_cost    BIGINT  NOT NULL CHECK (primary_cost >= 0),
    secondary_cost  BIGINT  NOT NULL CHECK (secondary_cost >= 0),
    data_version    BIGINT  NOT NULL,
    catalog_version BIGINT  NOT NULL,
    at              TEXT    COLLATE "C" NOT NULL,
    attempt         BIGINT  NOT NULL DEFAULT 1 CHECK (attempt BETWEEN 1 AND 3),
    state           TEXT    COLLATE "C" NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'failed', 'released')),
    holder          TEXT    COLLATE "C" NOT NULL,
    number          BIGINT  NOT NULL DEFAULT 0,
    released        TEXT    COLLATE "C",
    finished        TEXT    COLLATE "C",
    stages          BIGINT  NOT NULL DEFAULT 0,
    staged          TEXT    COLLATE "C",
    seal            BYTEA   NOT NULL DEFAULT '',
    UNIQUE (analyst, key)
);
CREATE INDEX charge_analyst ON charge (analyst, id);

CREATE TABLE release (
    charge  BIGINT  PRIMARY KEY REFERENCES charge (id),
    payload TEXT    COLLATE "C" NOT NULL
);

CREATE TABLE finished (
    charge  BIGINT  PRIMARY KEY REFERENCES release (charge),
    payload TEXT    COLLATE "C" NOT NULL
);

CREATE TABLE stage (
    charge  BIGINT  NOT NULL REFERENCES charge (id),
    number  BIGINT  NOT NULL CHECK (number >= 0),
    payload TEXT    COLLATE "C" NOT NULL,
    PRIMARY KEY (charge, number)
);

CREATE TABLE object (
    analyst TEXT    COLLATE "C" NOT NULL REFERENCES analyst (name),
    name    TEXT    COLLATE "C" NOT NULL,
    kind    TEXT    COLLATE "C" NOT NULL CHECK (kind IN ('summary', 'synthetic')),
    charge  BIGINT  NOT NULL REFERENCES charge (id),
    version BIGINT  NOT NULL DEFAULT 3,
    PRIMARY KEY (analyst, name)
);

CREATE TABLE share (
    analyst TEXT    COLLATE "C" NOT NULL,
    name    TEXT    COLLATE "C" NOT NULL,
    reader  TEXT    COLLATE "C" NOT NULL REFERENCES analyst (name),
    PRIMARY KEY (analyst, name, reader),
    FOREIGN KEY (analyst, name) REFERENCES object (analyst, name)
);

CREATE TABLE event (
    seq     BIGINT  PRIMARY KEY,
    at      TEXT    COLLATE "C" NOT NULL,
    kind    TEXT    COLLATE "C" NOT NULL,
    subject TEXT    COLLATE "C" NOT NULL,
    detail  TEXT    COLLATE "C" NOT NULL,
    reason  TEXT    COLLATE "C",
    hash    TEXT    COLLATE "C" NOT NULL CHECK (length(hash) = 64),
    action  BIGINT,
    version BIGINT  NOT NULL DEFAULT 3
);
CREATE UNIQUE INDEX event_action ON event (action) WHERE action IS NOT NULL;

CREATE TABLE directory (
    name    BYTEA   PRIMARY KEY,
    next    BYTEA   NOT NULL,
    subject BIGINT  NOT NULL,
    seal    BYTEA   NOT NULL
);

CREATE TABLE team (
    name                  TEXT    COLLATE "C" PRIMARY KEY,
    epsilon_nano          BIGINT  NOT NULL CHECK (epsilon_nano >= 0),
    delta_atto            BIGINT  NOT NULL CHECK (delta_atto BETWEEN 0 AND 1000000000000000000),
    primary_limit         BIGINT  NOT NULL,
    secondary_limit       BIGINT  NOT NULL,
    primary_spent         BIGINT  NOT NULL DEFAULT 0 CHECK (primary_spent >= 0),
    secondary_spent       BIGINT  NOT NULL DEFAULT 0 CHECK (secondary_spent >= 0),
    members               TEXT    COLLATE "C" NOT NULL DEFAULT '[]',
    month                 TEXT    COLLATE "C" NOT NULL DEFAULT '',
    month_epsilon_nano    BIGINT,
    month_delta_atto      BIGINT,
    primary_month_limit   BIGINT,
    secondary_month_limit BIGINT,
    primary_month_spent   BIGINT  NOT NULL DEFAULT 0 CHECK (primary_month_spent >= 0),
    secondary_month_spent BIGINT  NOT NULL DEFAULT 0 CHECK (secondary_month_spent >= 0),
    seal                  BYTEA   NOT NULL,
    CHECK (primary_spent <= primary_limit),
    CHECK (secondary_spent <= secondary_limit)
);

CREATE TABLE reservation (
    id             BIGINT  PRIMARY KEY,
    analyst        TEXT    COLLATE "C" NOT NULL REFERENCES analyst (name),
    epsilon_nano   BIGINT  NOT NULL CHECK (epsilon_nano >= 0),
    delta_atto     BIGINT  NOT NULL CHECK (delta_atto BETWEEN 0 AND 1000000000000000000),
    at             TEXT    COLLATE "C" NOT NULL,
    primary_held   BIGINT  NOT NULL CHECK (primary_held >= 0),
    secondary_held BIGINT  NOT NULL CHECK (secondary_held >= 0),
    holder         TEXT    COLLATE "C" NOT NULL,
    ended          TEXT    COLLATE "C",
    seal           BYTEA   NOT NULL
);
CREATE INDEX reservation_held ON reservation (id) WHERE ended IS NULL;

CREATE TABLE interaction (
    charge  BIGINT  PRIMARY KEY REFERENCES charge (id),
    turn    BIGINT  NOT NULL CHECK (turn >= 1),
    holder  TEXT    COLLATE "C" NOT NULL,
    steps   BIGINT  NOT NULL DEFAULT 0 CHECK (steps >= 0),
    stepped TEXT    COLLATE "C",
    ended   TEXT    COLLATE "C",
    seal    BYTEA   NOT NULL
);

CREATE TABLE step (
    charge   BIGINT  NOT NULL REFERENCES interaction (charge),
    number   BIGINT  NOT NULL CHECK (number >= 0),
    question TEXT    COLLATE "C" NOT NULL,
    output   TEXT    COLLATE "C" NOT NULL,
    secret   TEXT    COLLATE "C",
    PRIMARY KEY (charge, number),
    UNIQUE (charge, question)
);

-- The log of statements: what analysts asked that was not charged.
CREATE TABLE log (
    one        BIGINT  PRIMARY KEY CHECK (one = 1),
    dataset    TEXT    COLLATE "C" NOT NULL CHECK (length(dataset) = 32),
    most_rows  BIGINT  NOT NULL,
    most_bytes BIGINT  NOT NULL
);

CREATE TABLE chain (
    analyst TEXT    COLLATE "C" PRIMARY KEY,
    trimmed BIGINT  NOT NULL,
    before  TEXT    COLLATE "C" NOT NULL CHECK (length(before) = 64),
    count   BIGINT  NOT NULL,
    hash    TEXT    COLLATE "C" NOT NULL CHECK (length(hash) = 64),
    bytes   BIGINT  NOT NULL,
    CHECK (0 <= trimmed AND trimmed <= count)
);

CREATE TABLE statement (
    seq     BIGINT  GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    chain   TEXT    COLLATE "C" NOT NULL REFERENCES chain (analyst),
    number  BIGINT  NOT NULL,
    at      TEXT    COLLATE "C" NOT NULL,
    who     TEXT    COLLATE "C" NOT NULL,
    kind    TEXT    COLLATE "C" NOT NULL CHECK (kind IN ('free', 'refused', 'failed', 'lost')),
    text    TEXT    COLLATE "C" NOT NULL,
    outcome TEXT    COLLATE "C" NOT NULL,
    charge  BIGINT,
    hash    TEXT    COLLATE "C" NOT NULL CHECK (length(hash) = 64),
    UNIQUE (chain, number)
);
CREATE INDEX statement_at ON statement (at, seq);

-- Slips of our own code fail here before they can rewrite history.
CREATE TRIGGER event_change BEFORE UPDATE OR DELETE ON event FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER event_empty BEFORE TRUNCATE ON event FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER release_change BEFORE UPDATE OR DELETE ON release FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER release_empty BEFORE TRUNCATE ON release FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER finished_change BEFORE UPDATE OR DELETE ON finished FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER finished_empty BEFORE TRUNCATE ON finished FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER stage_change BEFORE UPDATE OR DELETE ON stage FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER stage_empty BEFORE TRUNCATE ON stage FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER step_change BEFORE UPDATE OR DELETE ON step FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER step_empty BEFORE TRUNCATE ON step FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER charge_delete BEFORE DELETE ON charge FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER charge_empty BEFORE TRUNCATE ON charge FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER charge_change BEFORE UPDATE OF
    id, analyst, key, kind, mechanism, parameters, statement, epsilon_nano, delta_atto, rho_pico, delta_zcdp_atto,
    primary_cost, secondary_cost, data_version, catalog_version, at, number
ON charge FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER statement_change BEFORE UPDATE ON statement FOR EACH ROW EXECUTE FUNCTION refuse_change();
