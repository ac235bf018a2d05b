"""Conversations of several people and agents: who takes part, and what an agent does in them."""
