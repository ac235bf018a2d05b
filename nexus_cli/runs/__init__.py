"""Runs that outlive processes: claimed, driven, suspended and resumed, each exactly once."""
