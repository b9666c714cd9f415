"""``method := 'tree'``: noisy tables of counts of columns and of the pairs that matter, rows by controlled rounding.

::

    bins         every column as a short list of bins
    single_values  cells of single values of whole numbers, and the law of values within bins
    contingency  tables of counts over bins
    plan         how the charge is spent, from public figures only
    released     what the stages leave
    buy/         the stages: counts with noise, pairs by the exponential mechanism
    make/        estimates from noisy counts, the forest of linked columns, rows dealt out by them
"""
