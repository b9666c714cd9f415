"""``method := 'lp'``: a summary is bought, and the distribution on a grid whose moments come closest to it is found.

::

    plan  what it is good for, and how its charge is divided
    buy/  the task: a summary, and beside it the patterns of NULLs
    make/ support      a grid of values each column can really take
          interior     the distribution on the grid whose moments come closest to the noisy ones, by interior points
          columns      all columns of that program at once;  generation  few of them, by column generation
          fitted       that distribution, as it is stored;  unfinished  where its program stands
          grid_rows    points of the grid as rows;  nulls  their NULLs
          synthesize   the way from a summary to rows

Source: Wang, Jin, Fan, Zhang, Huang, Zhong, Wang, "Differentially private data releasing for smooth queries", JMLR
17(51), 2016, Algorithm 3.
"""
