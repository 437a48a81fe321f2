"""What a user holds: services, steps, inferences, attachments, futures."""
