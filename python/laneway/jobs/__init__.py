"""The objects of the user: services, steps, inferences, attachments, futures."""
