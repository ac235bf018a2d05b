"""Compaction of a session's window: verbatim quotes, the record of the work, and the summary (law 6)."""
