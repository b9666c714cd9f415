"""Parts of the two Python faces, the analyst's session and the owner's curator."""
