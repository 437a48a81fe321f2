"""`laneway serve`: a gateway that answers HTTP and gRPC with models of a service, in a process of
its own.

It is an ordinary client of the service. Its libraries (the extra `laneway[serve]`) are loaded by
this folder alone. The process runs no code of a model and does not import torch: children that it
forks for each model do (making.py, maker.py), and leave a graph and the model's bytes in files,
which are then offered as a job. docs/serve.md has what a caller sees.
"""
