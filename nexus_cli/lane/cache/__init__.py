"""The provider's prompt cache: what a request should hit, what it did hit, and why not."""
