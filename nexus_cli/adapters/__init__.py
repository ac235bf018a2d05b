"""Entries of other programs that run nexus: benchmarks."""
