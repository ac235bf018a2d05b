"""Conversations of several people and agents: their members, and the acts of an agent in them."""
