"""Store and read API keys of `nexus login`: in the system's keyring, else in private files below `data/keys`.

There is one file per variable (0600): it has the key, or is empty if the keyring has it, so that listing needs no
keyring. Callers check the environment first, which wins. A stored key is never put into our environment, so that no
child process gets it; every key that was read is redacted from then on.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from typing import Any

from nexus_cli.config.paths import places
from nexus_cli.config.private_file import named_write_errors, replace_private_file
from nexus_cli.core.errors import NexusError, ProviderError

SERVICE = "nexus"
"""Service name of the keys in the keyring."""
USABLE = 1
"""Least priority of a usable keyring: backends below refuse, or write plain files."""


def stored_names() -> frozenset[str]:
    """Return the variables with a stored key. Never raises; keys in files are redacted from now on."""
    try:
        names = frozenset(os.listdir(places().keys))
    except OSError:
        return frozenset()
    return frozenset(name for name in names if not name.startswith(".") and _read_key_file(name) is not None)


def stored_key(variable: str, *, anew: bool = False) -> str:
    """Return the stored key of `variable`, "" if there is none. Blocks while the keyring waits to be unlocked.

    With `anew`, the keyring is asked again: another process may have changed the key. Raises
    `ProviderError("auth", ...)` if the keyring fails.
    """
    if anew:
        _from_keyring.cache_clear()
    text = _read_key_file(variable)
    if text != "":
        return text or ""
    return _protect(_from_keyring(variable))


def read_secret(name: str) -> str:
    """Return the environment variable `name`, else the stored key of that name, else ""; see `stored_key`."""
    text = os.environ.get(name, "").strip()
    return _protect(text) if text else stored_key(name)


def key_place(variable: str) -> str:
    """Return the place of the stored key for a message, "" if none is stored."""
    text = _read_key_file(variable)
    if text is None:
        return ""
    return str(places().keys / variable) if text else "the keyring"


def store_key(variable: str, key: str) -> str:
    """Store `key` and return its place; raise `NexusError("internal", ...)` if it cannot be written."""
    _protect(key)
    keyring = _keyring()
    in_keyring = False
    if keyring is not None:
        try:
            keyring.set_password(SERVICE, variable, key)
            in_keyring = bool(keyring.get_password(SERVICE, variable) == key)
        except Exception:  # a backend may raise anything (locked, no bus, refused): store it in the file
            in_keyring = False
    _from_keyring.cache_clear()
    path = places().keys / variable
    with named_write_errors(path):
        replace_private_file(path, b"" if in_keyring else key.encode())
    return key_place(variable)


def remove_key(variable: str) -> str:
    """Remove the stored key of `variable`; return its former place, "" for none, or raise `NexusError`."""
    place = key_place(variable)
    if not place:
        return ""
    in_keyring = _read_key_file(variable) == ""
    try:
        (places().keys / variable).unlink(missing_ok=True)
    except OSError as error:
        raise NexusError("internal", place, f"cannot be removed ({error.strerror})", "Check the permissions") from error
    _from_keyring.cache_clear()
    if in_keyring:
        _remove_from_keyring(variable)
    return place


def _remove_from_keyring(variable: str) -> None:
    keyring = _keyring()
    try:
        if keyring is None:
            raise LookupError("no keyring is usable here")
        keyring.delete_password(SERVICE, variable)
    except Exception as error:  # a backend may raise anything
        why = f"nexus no longer uses the key, but it may still be in the keyring ({type(error).__name__})"
        hint = f"Remove {SERVICE}/{variable} with your system's keyring tool"
        raise NexusError("internal", variable, why, hint) from error


def _read_key_file(variable: str) -> str | None:
    """Return the key in the file of `variable`, "" if it is in the keyring, None if none is stored."""
    try:
        text = (places().keys / variable).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
    return _protect(text)


def _protect(key: str) -> str:
    """Register `key` for redaction, and return it."""
    from nexus_cli.core.redact_secrets import protect_secret  # noqa: PLC0415  (slow, and many have no stored key)

    protect_secret(key)
    return key


@cache
def _from_keyring(variable: str) -> str:
    keyring = _keyring()
    if keyring is None:
        why = f"the key for {variable} is in the keyring, but no keyring is usable here"
        raise ProviderError("auth", why, f"Store it again with `nexus login`, or export {variable}=...")
    try:
        return str(keyring.get_password(SERVICE, variable) or "")
    except Exception as error:  # a backend may raise anything: locked, no bus, refused
        why = f"the keyring did not return the key for {variable} ({type(error).__name__})"
        raise ProviderError("auth", why, f"Unlock the keyring, or export {variable}=...") from error


def _keyring() -> Any:
    """Return the module `keyring` if it is installed and has a usable backend, else None."""
    try:
        keyring = import_module("keyring")  # an optional dependency, slow to import
        return keyring if keyring.get_keyring().priority >= USABLE else None
    except Exception:  # not installed, or no backend could be loaded
        return None
