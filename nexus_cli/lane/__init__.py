"""One line of requests: its window, model and budget, and how the next request is made."""
