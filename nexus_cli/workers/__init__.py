"""Workers of a session. Nothing here is imported before the first one starts."""
