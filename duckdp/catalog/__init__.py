"""What a data owner declares, as types: tables, privacy units, bounds, domains."""
