"""Workers of a session. Nothing here loads before the first one."""
