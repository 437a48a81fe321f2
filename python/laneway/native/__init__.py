"""The C library, this process and the programs of the service: what everything else stands on."""
