"""Hooks: commands of the person or of a trusted project that run at an event of a session."""
