"""Decide whether a tool call runs, needs approval, or is refused."""
