"""Recognize folders that a known tool fills again: by what is in them and beside them, never by name alone."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from nexus_cli.config.protected_places import BUILD_FOLDERS

_BESIDE = {
    "node_modules": "package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb package.json",
    "bower_components": "bower.json",
    "vendor": "composer.lock gemfile.lock",
    "target": "cargo.toml pom.xml build.sbt",
    "build": "build.gradle build.gradle.kts pubspec.lock",
    ".gradle": "build.gradle build.gradle.kts settings.gradle settings.gradle.kts",
    ".next": "package.json",
    ".nuxt": "package.json",
    ".svelte-kit": "package.json",
    ".turbo": "package.json",
    ".parcel-cache": "package.json",
    ".terraform": ".terraform.lock.hcl",
    "pods": "podfile.lock",
    ".dart_tool": "pubspec.lock",
    ".build": "package.swift",
    ".tox": "tox.ini pyproject.toml setup.cfg",
    ".nox": "noxfile.py",
    ".eggs": "setup.py",
}
"""By the name of a folder: files of which one beside it says that a tool fills it."""
_INSIDE = ("pyvenv.cfg", "CACHEDIR.TAG", "CMakeCache.txt")
"""Files of which one inside says it of any folder: a virtual environment, a cache, a build."""

_NAME_PARTS = ("cache", "env", "build")
"""Parts of names that people give to such folders."""


def is_named_by_tool(path: str) -> bool:
    """Return True if the name of a folder is one that tools use: a file that marks it may be a command's."""
    name = path.rpartition("/")[2].lower()
    return name in BUILD_FOLDERS or any(part in name for part in _NAME_PARTS)


def is_filled_by_tool(name: str, inside: AbstractSet[str], beside: AbstractSet[str]) -> bool:
    """Return True if a folder `name` with the names `inside`, and those `beside` it, is filled by a known tool."""
    if not inside.isdisjoint(_INSIDE):
        return True
    folded = name.lower()
    if folded == "__pycache__":
        return all(entry_name.endswith((".pyc", ".pyo")) or ".pyc." in entry_name for entry_name in inside)
    expected = _BESIDE.get(folded, "").split()
    return bool(expected) and not {entry_name.lower() for entry_name in beside}.isdisjoint(expected)
