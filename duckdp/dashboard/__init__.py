"""The owner's page: budgets, what was asked, what was refused, what was released; from the ledger alone."""
