"""Relations that are made of protected tables: what a subquery, a CTE or a join gives."""
