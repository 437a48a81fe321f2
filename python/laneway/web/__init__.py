"""`laneway web`: a page and metrics of a running service, in a process of its own.

It is an ordinary client of the service: it asks for the status once a second, however many pages
are open, and a request that changes something is a request of the user who started it. Its
libraries (the extra `laneway[web]`) are loaded by this folder alone.
"""
