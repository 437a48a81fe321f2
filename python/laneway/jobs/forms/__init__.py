"""Forms of call: what a capture takes as constant, and which graph a call gets."""
