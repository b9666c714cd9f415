"""``method := 'theorem'``: [J] Algorithm 3 as it stands, for one to three bounded columns, with its error bound.

``parameters``: what its theorems promise, with every constant; ``plan``: what can be had of them; ``buy``: the sums at
grid points; ``make``: the distribution, its rows, and the bound.

Source: [J] = Wang, Jin, Fan, Zhang, Huang, Zhong, Wang, "Differentially private data releasing for smooth queries",
JMLR 17(51), 2016, Algorithm 3, Theorems 17 and 22.
"""
