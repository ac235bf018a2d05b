"""What a provider's cache holds of what a lane sent: what is expected, what came of it, and why not."""
