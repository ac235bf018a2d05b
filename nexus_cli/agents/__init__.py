"""Work beside the person's own: git worktrees of a project. Nothing here loads at the start of a plain session."""
