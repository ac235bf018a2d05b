"""The way of a tool call: decided, started, run, recorded."""
