"""The way in over a network: PostgreSQL's wire protocol, one process per analyst that holds no private row."""
