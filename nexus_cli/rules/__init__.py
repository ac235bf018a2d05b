"""Rules for commands and files: what runs without asking, what asks, what is refused."""
