"""The contents of a compacted window: kept messages, quotes, record and summary (law 6). Pure."""
