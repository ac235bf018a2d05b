"""Guides: skills, commands and agents, found as files of the person, of a project or of a plugin. See README.md."""
