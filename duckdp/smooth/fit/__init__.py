"""The coefficients of a function in the basis, and what they leave: found, proved or estimated (``coefficients``)."""
