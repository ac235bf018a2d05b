"""The window of a lane: the part of the log that is sent, and its form. See README.md."""
