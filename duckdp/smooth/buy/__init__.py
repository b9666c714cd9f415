"""The private side of summaries: what they cost, their reads, and the noise of their sums.

``sums`` prints the reads. Nothing outside of these two folders, of what makes answers and rows, imports either.
"""
