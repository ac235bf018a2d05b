"""Spaces: conversations of several people and agents."""
