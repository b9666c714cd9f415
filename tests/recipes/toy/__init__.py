"""``method := 'toy'`` of the recipe's test: a noisy number of rows, and rows in even steps over the bounds."""
