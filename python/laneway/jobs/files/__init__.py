"""What a step writes to files as it goes."""
