"""The loop of a turn, and the way of a tool call."""
