"""The C interface, locks and changes of this process, and the programs of the service."""
