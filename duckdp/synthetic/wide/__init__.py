"""Synthetic tables of many columns: exact integer sums in, noise, and rows made from the noisy figures alone.

One thing, one file, in the order of the work::

    features    moments of a row in [-1, 1]^d that can be bought, their derivatives, and their SQL
    plan        which of them to buy and for what share, from public figures only
    release     exact sums -> noisy means; the only place where private values exist
    choose      one of several scores, privately (noisy maximum)
    size        where |u|^2 lies: a private median
    best        the strongest links, privately
    denoise     noisy means -> better means (empirical Bayes; shrinkage of a noisy matrix)
    start       first rows from means and the average square norm
    laws        laws of single columns from a few noisy moments
    fit         rows moved until their moments are the wanted ones
    auto        method := 'moments': the way through them
    tree        method := 'tree': tables of counts, pairs that matter, rows by controlled rounding (``tree_*``)
    psi         method := 'psi': private subspace iteration, points of its ellipsoid, linear program
    table       what both give

A row is u in [-1, 1]^d: numbers mapped by their public bounds, yes/no columns and indicators of categories as -1 and 1.

Source: Wang, Jin, Fan, Zhang, Huang, Zhong, Wang, "Differentially private data releasing for smooth queries", JMLR
17(51), 2016, section 5.2, for ``psi``; the others are our own.
"""
