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
-- the last row's next is x''. Names begin with their kind: a analyst, c charge, o object, s share, t table in force.
CREATE TABLE directory (
    name    BLOB    PRIMARY KEY,
    next    BLOB    NOT NULL,
    subject INTEGER NOT NULL,
    seal    BLOB    NOT NULL
) WITHOUT ROWID;
