"""The graph of a captured iteration as data, and its binary form."""
