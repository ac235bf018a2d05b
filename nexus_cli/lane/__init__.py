"""Lanes: the window, model and budget of one sequence of requests, and the next request."""
