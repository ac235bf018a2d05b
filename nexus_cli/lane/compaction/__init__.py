"""Compaction of a session's window: what is kept word for word, the record of the work, and the summary (law 6)."""
