"""Calls as other programs define them: a table of their names, and tools that are run but not offered."""
