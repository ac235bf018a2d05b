"""What a compaction keeps, quotes and says (law 6). Pure."""
