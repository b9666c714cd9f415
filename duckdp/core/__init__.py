"""The mathematics of the trusted core: exact numbers, noise, accountants, error bars. No SQL, no data."""
