"""Synthetic tables from a smooth-query summary: post-processing of a release, so free.

One thing, one file, in the order of the work::

    support     a grid of values each column can really take
    program     the distribution on the grid whose moments come closest to the noisy ones (one linear program)
    sample      exactly m rows drawn from it
    decode      rows in the columns' own units and types; the table as JSON
    synthesize  the way through them

Nothing here can see private rows: the only input is a ``SmoothSummary``. A table straight from a protected table is a
``SummaryTask`` first, and this afterwards.

Source: Wang, Jin, Fan, Zhang, Huang, Zhong, Wang, "Differentially private data releasing for smooth queries", JMLR
17(51), 2016, Algorithm 3.
"""
