"""A conversation: its entries, the window of the next request, and the rules of compaction. Pure; see README.md."""
