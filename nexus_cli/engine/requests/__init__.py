"""The requests of a conversation: what is sent next, the model call, the limits on both."""
