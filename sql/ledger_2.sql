-- From version 1 to 2: what was made from a release afterwards, by post-processing alone; at most once.
CREATE TABLE finished (
    charge  INTEGER PRIMARY KEY REFERENCES release (charge),
    payload TEXT    NOT NULL
);
CREATE TRIGGER finished_update BEFORE UPDATE ON finished BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER finished_delete BEFORE DELETE ON finished BEGIN SELECT RAISE(ABORT, 'append-only'); END;
