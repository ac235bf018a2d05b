"""The memory of a session: its facts, and the evidence for a fact."""
