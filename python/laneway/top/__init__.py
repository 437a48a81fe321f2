"""`laneway top`: the service on a terminal, with keys. Its library (the extra `laneway[top]`) is
loaded by this folder alone; `laneway top --once` does without."""
