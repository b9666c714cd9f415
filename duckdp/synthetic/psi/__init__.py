"""``method := 'psi'``: private subspace iteration, points of its ellipsoid, rows by a linear program.

``plan``: how the charge is spent; ``released``: what the stages leave; ``buy``: the stages; ``make``: rows.

Source: Wang, Jin, Fan, Zhang, Huang, Zhong, Wang, "Differentially private data releasing for smooth queries", JMLR
17(51), 2016, Algorithm 4 and section 5.2.
"""
