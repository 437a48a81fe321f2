"""Facts about single operators of torch: how a capture records them, and errors of their fakes."""
