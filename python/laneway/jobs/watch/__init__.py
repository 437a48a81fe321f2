"""The client's models and optimizers while a job trains them: who reads them, and who may."""
