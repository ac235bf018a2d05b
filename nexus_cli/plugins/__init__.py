"""Plugins: folders with skills, commands, hooks and servers, and Python packages."""
