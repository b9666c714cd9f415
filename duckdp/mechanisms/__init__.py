"""One mechanism per file: the claim with its proof sketch and source, and the release."""
