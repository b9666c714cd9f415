"""``python -m duckdp``: the command line."""

from duckdp.cli import main

if __name__ == "__main__":
    main(prog_name="duckdp")
