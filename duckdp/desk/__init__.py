"""The one door to the vault: charge, read, noise, store."""
