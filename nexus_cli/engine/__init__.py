"""The engine of a conversation: the loop of a turn, its requests, its calls, compaction."""
