"""Runs that outlive processes: each is claimed, driven, suspended and resumed exactly once."""
