"""Token counts and estimates. Start with README.md."""
