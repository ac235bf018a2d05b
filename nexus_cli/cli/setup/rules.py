"""`nexus rules`: what a session calls `/permissions`."""

from dataclasses import replace

from nexus_cli.commands.permissions import PERMISSIONS

NOUN = replace(PERMISSIONS, name="rules")
