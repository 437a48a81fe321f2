"""Facts about single operators of torch: how they are recorded, what their fakes get wrong."""
