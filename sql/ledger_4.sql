-- From version 3 to 4: every row that is used carries a seal, and what is not there is proved.
--
-- seal is a digest of the row, all columns but itself, keyed by the data set's salt; it is checked whenever the row is
-- used and renewed whenever it changes. The data set's row counts what there is and repeats the head of the chain.

-- The head of the chain after the last transaction, and how many there are of what is numbered without gaps.
ALTER TABLE dataset ADD COLUMN events   INTEGER NOT NULL DEFAULT 0;  -- entries of the chain
ALTER TABLE dataset ADD COLUMN head     TEXT    NOT NULL DEFAULT ''; -- hash of the last one
ALTER TABLE dataset ADD COLUMN actions  INTEGER NOT NULL DEFAULT 0;  -- entries that are actions of the owner
ALTER TABLE dataset ADD COLUMN charges  INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dataset ADD COLUMN declared INTEGER NOT NULL DEFAULT 0;  -- rows of catalog
ALTER TABLE dataset ADD COLUMN charged  INTEGER NOT NULL DEFAULT -1; -- version of the catalog at the last charge
ALTER TABLE dataset ADD COLUMN read     TEXT;                        -- mark of the source's having been read in full
-- Where the anchor is (JSON list of {"file": ...} and {"command": [...]}; NULL is the file beside the ledger), and that
-- this is a backup, made when; both as the chain says.
ALTER TABLE dataset ADD COLUMN anchor   TEXT;
ALTER TABLE dataset ADD COLUMN backup   TEXT;
ALTER TABLE dataset ADD COLUMN seal     BLOB    NOT NULL DEFAULT x'';

ALTER TABLE analyst ADD COLUMN charges INTEGER NOT NULL DEFAULT 0;
ALTER TABLE analyst ADD COLUMN seal    BLOB    NOT NULL DEFAULT x'';

ALTER TABLE catalog ADD COLUMN until   INTEGER;                      -- the version that ended it
ALTER TABLE catalog ADD COLUMN charged INTEGER NOT NULL DEFAULT 0;   -- something was charged while it was in force
ALTER TABLE catalog ADD COLUMN seal    BLOB    NOT NULL DEFAULT x'';

-- A charge's row vouches for what was released, finished and staged for it: digests of the payloads.
ALTER TABLE charge ADD COLUMN number   INTEGER NOT NULL DEFAULT 0;   -- among the analyst's charges, from 1
ALTER TABLE charge ADD COLUMN released TEXT;
ALTER TABLE charge ADD COLUMN finished TEXT;
ALTER TABLE charge ADD COLUMN stages   INTEGER NOT NULL DEFAULT 0;
ALTER TABLE charge ADD COLUMN staged   TEXT;                         -- of all stages, each linked to the one before
ALTER TABLE charge ADD COLUMN seal     BLOB    NOT NULL DEFAULT x'';
UPDATE charge SET number = numbered.number
    FROM (SELECT id, row_number() OVER (PARTITION BY analyst ORDER BY id) AS number FROM charge) AS numbered
    WHERE charge.id = numbered.id;
CREATE INDEX charge_analyst ON charge (analyst);
CREATE TRIGGER charge_number BEFORE UPDATE OF number ON charge BEGIN SELECT RAISE(ABORT, 'append-only'); END;

-- Actions of the owner are numbered; charges and what follows from them are not.
DROP TRIGGER event_update;
ALTER TABLE event ADD COLUMN action INTEGER;
UPDATE event SET action = numbered.action
    FROM (SELECT seq, row_number() OVER (ORDER BY seq) AS action FROM event
          WHERE kind NOT IN ('charge', 'redeem', 'stage', 'release', 'finish', 'fail', 'name', 'free', 'seal', 'hold')
         ) AS numbered
    WHERE event.seq = numbered.seq;
CREATE UNIQUE INDEX event_action ON event (action) WHERE action IS NOT NULL;
CREATE TRIGGER event_update BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'append-only'); END;

-- What there is, in the order of names, each row with the next name: a lookup that finds nothing shows the sealed row
-- that spans the gap, and a listing is whole if its rows lead to each other. The row named x'' comes before all others,
-- the last row's next is x''. Names begin with their kind: a analyst, c charge, g team, o object, s share, t table in
-- force.
CREATE TABLE directory (
    name    BLOB    PRIMARY KEY,
    next    BLOB    NOT NULL,
    subject INTEGER NOT NULL,
    seal    BLOB    NOT NULL
) WITHOUT ROWID;

-- Caps within the total: of an analyst, and of a team of analysts. A charge counts in full against each of them. Beside
-- the cap for ever, one for each calendar month (UTC); its columns are NULL where there is none. What is spent is counted
-- for the month of the last charge, with or without such a cap. Months move forward only, whatever the clock does.
ALTER TABLE dataset ADD COLUMN month        TEXT    NOT NULL DEFAULT ''; -- of the last charge
ALTER TABLE dataset ADD COLUMN reservations INTEGER NOT NULL DEFAULT 0;
ALTER TABLE dataset ADD COLUMN reserved     INTEGER NOT NULL DEFAULT 0;  -- reservations that have not ended

ALTER TABLE analyst ADD COLUMN teams                 TEXT NOT NULL DEFAULT '[]'; -- of which it is a member; JSON, sorted
ALTER TABLE analyst ADD COLUMN month                 TEXT NOT NULL DEFAULT '';
ALTER TABLE analyst ADD COLUMN month_epsilon_nano    INTEGER;
ALTER TABLE analyst ADD COLUMN month_delta_atto      INTEGER;
ALTER TABLE analyst ADD COLUMN primary_month_limit   INTEGER;
ALTER TABLE analyst ADD COLUMN secondary_month_limit INTEGER;
ALTER TABLE analyst ADD COLUMN primary_month_spent   INTEGER NOT NULL DEFAULT 0
    CHECK (typeof(primary_month_spent) = 'integer' AND primary_month_spent >= 0);
ALTER TABLE analyst ADD COLUMN secondary_month_spent INTEGER NOT NULL DEFAULT 0
    CHECK (typeof(secondary_month_spent) = 'integer' AND secondary_month_spent >= 0);

-- What was spent stays with the teams of which the analyst was a member when it was charged.
CREATE TABLE team (
    name                  TEXT    PRIMARY KEY,
    epsilon_nano          INTEGER NOT NULL CHECK (epsilon_nano >= 0),
    delta_atto            INTEGER NOT NULL CHECK (delta_atto BETWEEN 0 AND 1000000000000000000),
    primary_limit         INTEGER NOT NULL CHECK (typeof(primary_limit) = 'integer'),
    secondary_limit       INTEGER NOT NULL CHECK (typeof(secondary_limit) = 'integer'),
    primary_spent         INTEGER NOT NULL DEFAULT 0 CHECK (typeof(primary_spent) = 'integer' AND primary_spent >= 0),
    secondary_spent       INTEGER NOT NULL DEFAULT 0 CHECK (typeof(secondary_spent) = 'integer' AND secondary_spent >= 0),
    members               TEXT    NOT NULL DEFAULT '[]', -- JSON, sorted
    month                 TEXT    NOT NULL DEFAULT '',
    month_epsilon_nano    INTEGER,
    month_delta_atto      INTEGER,
    primary_month_limit   INTEGER,
    secondary_month_limit INTEGER,
    primary_month_spent   INTEGER NOT NULL DEFAULT 0
        CHECK (typeof(primary_month_spent) = 'integer' AND primary_month_spent >= 0),
    secondary_month_spent INTEGER NOT NULL DEFAULT 0
        CHECK (typeof(secondary_month_spent) = 'integer' AND secondary_month_spent >= 0),
    seal                  BLOB    NOT NULL,
    CHECK (primary_spent <= primary_limit),
    CHECK (secondary_spent <= secondary_limit)
);

-- Headroom that is held for one holder: nobody else's charge may take it. It is no charge, and ends with its holder.
CREATE TABLE reservation (
    id             INTEGER PRIMARY KEY,
    analyst        TEXT    NOT NULL REFERENCES analyst (name),
    epsilon_nano   INTEGER NOT NULL CHECK (epsilon_nano >= 0),
    delta_atto     INTEGER NOT NULL CHECK (delta_atto BETWEEN 0 AND 1000000000000000000),
    at             TEXT    NOT NULL,
    primary_held   INTEGER NOT NULL CHECK (typeof(primary_held) = 'integer' AND primary_held >= 0),
    secondary_held INTEGER NOT NULL CHECK (typeof(secondary_held) = 'integer' AND secondary_held >= 0),
    holder         TEXT    NOT NULL,
    ended          TEXT,
    seal           BLOB    NOT NULL
);
CREATE INDEX reservation_held ON reservation (id) WHERE ended IS NULL;

-- A charge whose release goes on question by question (an interactive mechanism), with no last one known beforehand.
-- One holder at a time goes on with it; each holder is a turn of its own. The row vouches for the steps.
CREATE TABLE interaction (
    charge  INTEGER PRIMARY KEY REFERENCES charge (id),
    turn    INTEGER NOT NULL CHECK (typeof(turn) = 'integer' AND turn >= 1),
    holder  TEXT    NOT NULL,
    steps   INTEGER NOT NULL DEFAULT 0 CHECK (typeof(steps) = 'integer' AND steps >= 0),
    stepped TEXT,                                   -- of all steps, each linked to the one before
    ended   TEXT,
    seal    BLOB    NOT NULL
);

-- Each step is stored before its output leaves. Step 0 has no question: it is the secret state from which all begins. A
-- secret is noise that never leaves the ledger; an equal question is the same step.
CREATE TABLE step (
    charge   INTEGER NOT NULL REFERENCES interaction (charge),
    number   INTEGER NOT NULL CHECK (typeof(number) = 'integer' AND number >= 0),
    question TEXT    NOT NULL,
    output   TEXT    NOT NULL,
    secret   TEXT,
    PRIMARY KEY (charge, number),
    UNIQUE (charge, question)
);
CREATE TRIGGER step_update BEFORE UPDATE ON step BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER step_delete BEFORE DELETE ON step BEGIN SELECT RAISE(ABORT, 'append-only'); END;

-- A process of an earlier version that has the ledger open while it is brought to this one knows no seals: what it wrote
-- would be damage. Whatever it does says no version, or leaves the seal as it was, and is refused as a whole.
ALTER TABLE event  ADD COLUMN version INTEGER NOT NULL DEFAULT 3;
ALTER TABLE object ADD COLUMN version INTEGER NOT NULL DEFAULT 3;
CREATE TRIGGER event_version BEFORE INSERT ON event WHEN NEW.version < 4
    BEGIN SELECT RAISE(ABORT, 'written by an earlier version'); END;
CREATE TRIGGER object_version BEFORE INSERT ON object WHEN NEW.version < 4
    BEGIN SELECT RAISE(ABORT, 'written by an earlier version'); END;
CREATE TRIGGER charge_seal BEFORE UPDATE ON charge WHEN NEW.seal = OLD.seal
    BEGIN SELECT RAISE(ABORT, 'written by an earlier version'); END;
