"""The implementation of torch.compile(backend="laneway")."""
