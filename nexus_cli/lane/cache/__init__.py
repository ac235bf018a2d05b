"""The provider's prompt cache: expected hits, reported hits, and the causes of misses."""
