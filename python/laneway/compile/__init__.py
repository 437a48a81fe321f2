"""What stands behind torch.compile(backend="laneway")."""
