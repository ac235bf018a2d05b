"""The window of a lane: what happened, what of it is sent, and in which form. See README.md."""
