-- From version 3 to 4: where the anchor is (JSON list of {"file": ...} and {"command": [...]}; NULL is the file beside the
-- ledger), and that this is a backup, made when; both as the chain says.
ALTER TABLE dataset ADD COLUMN anchor TEXT;
ALTER TABLE dataset ADD COLUMN backup TEXT;
