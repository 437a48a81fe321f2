"""A job and its graphs as something to call: inputs in, results and state out."""
