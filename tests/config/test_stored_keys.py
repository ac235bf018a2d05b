"""Stored keys: in a private file, in a keyring where one stores, found and removed in either place."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nexus_cli.config import stored_keys
from nexus_cli.config.paths import places
from nexus_cli.config.stored_keys import key_place, remove_key, store_key, stored_key, stored_names
from nexus_cli.core.errors import NexusError, ProviderError
from nexus_cli.core.redact_secrets import redact

KEYRING = """
from types import SimpleNamespace
kept, refuses, priority = {}, False, 5
def get_keyring():
    return SimpleNamespace(priority=priority)
def set_password(service, name, key):
    if refuses:
        raise RuntimeError("locked")
    kept[service, name] = key
def get_password(service, name):
    if refuses:
        raise RuntimeError("locked")
    return kept.get((service, name))
def delete_password(service, name):
    del kept[service, name]
"""
KEY = "correct-horse-battery"


@pytest.fixture
def keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A keyring library with a store in memory."""
    (tmp_path / "keyring.py").write_text(KEYRING)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("keyring", None)
    stored_keys._from_keyring.cache_clear()


@pytest.fixture
def _no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)


@pytest.mark.usefixtures("_no_keyring")
def test_a_key_lies_in_a_private_file_and_is_redacted_once_it_was_read() -> None:
    assert stored_names() == frozenset() and stored_key("A_KEY") == "" and remove_key("A_KEY") == ""
    path = Path(store_key("A_KEY", KEY))
    assert (path.parent.parent, path.read_text()) == (places().data, KEY)
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    assert stored_names() == {"A_KEY"} and stored_key("A_KEY") == KEY
    assert redact(f"it says {KEY}.") == "it says [redacted]."
    store_key("A_KEY", "another-one")
    assert stored_key("A_KEY") == "another-one" and [one.name for one in path.parent.iterdir()] == ["A_KEY"]
    assert remove_key("A_KEY") == str(path) and stored_names() == frozenset()


@pytest.mark.usefixtures("keyring")
def test_where_a_keyring_stores_no_file_holds_the_key() -> None:
    assert store_key("A_KEY", KEY) == key_place("A_KEY") == "the keyring"
    assert stored_names() == {"A_KEY"} and stored_key("A_KEY") == KEY
    assert not [path for path in places().data.rglob("*") if path.is_file() and path.read_text()]
    assert remove_key("A_KEY") == "the keyring" and sys.modules["keyring"].kept == {}
    assert (stored_names(), stored_key("A_KEY"), remove_key("A_KEY")) == (frozenset(), "", "")


@pytest.mark.usefixtures("keyring")
@pytest.mark.parametrize("name", ["refuses", "priority"])
def test_a_keyring_that_does_not_store_leaves_it_to_the_file(name: str) -> None:
    keyring = __import__("keyring")
    setattr(keyring, name, {"refuses": True, "priority": 0}[name])
    assert store_key("A_KEY", KEY).endswith("A_KEY") and stored_key("A_KEY") == KEY and keyring.kept == {}


@pytest.mark.usefixtures("keyring")
@pytest.mark.parametrize("gone", [True, False])
def test_a_key_that_the_keyring_keeps_is_used_no_more_and_never_called_removed(
    monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    store_key("A_KEY", KEY)
    if gone:
        monkeypatch.setitem(sys.modules, "keyring", None)
    else:
        sys.modules["keyring"].kept.clear()
    with pytest.raises(NexusError) as raised:
        remove_key("A_KEY")
    assert "may still be in the keyring" in raised.value.line and "nexus/A_KEY" in raised.value.line
    assert (stored_names(), stored_key("A_KEY"), remove_key("A_KEY")) == (frozenset(), "", "")


@pytest.mark.usefixtures("keyring")
def test_a_keyring_that_is_locked_later_is_an_error_of_the_key() -> None:
    store_key("A_KEY", KEY)
    sys.modules["keyring"].refuses = True  # type: ignore[attr-defined]
    with pytest.raises(ProviderError) as raised:
        stored_key("A_KEY")
    assert raised.value.kind == "auth" and "A_KEY" in raised.value.line and KEY not in raised.value.line


@pytest.mark.usefixtures("_no_keyring")
def test_a_folder_that_cannot_be_written_is_named() -> None:
    places().data.parent.mkdir(parents=True, exist_ok=True)
    places().data.write_text("in the way")
    with pytest.raises(NexusError) as raised:
        store_key("A_KEY", KEY)
    assert "A_KEY" in raised.value.line and KEY not in raised.value.line and stored_names() == frozenset()
