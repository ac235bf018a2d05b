"""Copies of a project to work in: git worktrees for people and workers."""
