"""One planted fault."""

from __future__ import annotations

from dataclasses import dataclass

# What neighbours cost, of every kind of release; and the shares of measures, of random SELECTs.
LOSSES = "tests/privacy/test_losses.py::test_neighbours_cost_no_more_than_the_charge_and_nearly_that"
SHARES = "tests/privacy/test_losses.py::test_shares_of_every_plan_add_up_to_its_charge"


def losses(*cases: str) -> tuple[str, ...]:
    """The losses of these cases alone: all of them take most of a minute."""
    return tuple(f"{LOSSES}[{case}]" for case in cases)


@dataclass(frozen=True)
class Mutant:
    """A snippet of a file that stands there once, what replaces it, and the fast tests that must then fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied(self, text: str) -> str:
        """The file's text with the fault in it."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: the snippet stands {text.count(self.old)} times in {self.file}, not once")
        return text.replace(self.old, self.new)
