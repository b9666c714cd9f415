"""``method := 'moments'``: buy the moments of many columns that pay, make rows that have them.

::

    plan        which moments to buy and for what share, from public figures only
    marginals   moments of each numeric column by itself, bought beside
    released    what the stages leave, and the functions that follow from them
    buy/        the stages: sums, the strongest links by noisy maxima
    make/       rows: better means, first rows of the columns' laws, rows moved until their moments are the wanted ones
"""
