"""Workers of a session, and the worktrees that they and people work in. Nothing here loads before the first one."""
