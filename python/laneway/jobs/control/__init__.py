"""What a client asks of a service: the handle of it, and what a user says of a job."""
