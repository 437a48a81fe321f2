"""One module a check: `run(tree)` returns findings; FIXTURES show that it finds what it should."""
