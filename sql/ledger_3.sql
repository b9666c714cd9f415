-- From version 2 to 3: noisy outputs of the stages of a release that reads several times, each stored before the next
-- read; a release of one stage has none. A retry under the same charge takes them as they stand.
CREATE TABLE stage (
    charge  INTEGER NOT NULL REFERENCES charge (id),
    number  INTEGER NOT NULL CHECK (typeof(number) = 'integer' AND number >= 0),
    payload TEXT    NOT NULL,
    PRIMARY KEY (charge, number)
);
CREATE TRIGGER stage_update BEFORE UPDATE ON stage BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER stage_delete BEFORE DELETE ON stage BEGIN SELECT RAISE(ABORT, 'append-only'); END;
