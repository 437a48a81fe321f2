"""The client's objects follow the job that trains them."""
