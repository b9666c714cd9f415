.PHONY: test lint slow mutants docs generated

test:  ## the fast suite
	python -m pytest -q

lint:  ## style and types
	python -m ruff check .
	python -m ruff format --check .
	python -m mypy

generated:  ## sql/front.sql and docs/sql.md, from the declarations of the dp functions
	python -m duckdp.functions.write

slow:  ## statistics, fuzz and load: an hour
	python -m pytest -q -m slow

mutants:  ## planted faults, each of which a fast test must notice
	nice -n 10 python -m tests.mutants.run

docs:  ## what is generated: the SQL of the functions and its page, the two pictures
	python -m duckdp.functions.write
	python docs/picture.py
	python docs/recording.py
