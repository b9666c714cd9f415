"""Rows as points u of [-1, 1]^d, for every method that buys sums over many columns.

A row is u: numbers mapped by their public bounds, yes/no columns and indicators of categories as -1 and 1::

    layout      declared columns as unit columns, and back
    lay_out     the unit columns and the public parameters of a call
    structure   what is modelled in place of columns: calendar parts, gaps of orders; no totals
    mending     rows that keep every declared constraint
    features    functions of a row in [-1, 1]: values, and their sums as SQL
    charge_terms  charge, relation and kind of noise; what noise they would make
    completeness  when a noisy count of NULLs says that there are none
    stages      what a stage leaves;  packed, kept  the same as stored text
    finish      from a stored release to stored rows
    unit_rows   rounding to -1 and 1;  uniforms  random numbers for making rows
    buy/        the private side: reads in unit columns, shares of one charge, the task
"""
