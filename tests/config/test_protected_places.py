"""The list of credentials and protected names that every guard uses.

Owns what counts as one; what a guard does with it belongs to permission and to the sandbox.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from nexus_cli.config.paths import Places
from nexus_cli.config.protected_places import (
    CREDENTIALS,
    GIT_CONTROLS,
    PROTECTED_FILES,
    PROTECTED_FOLDERS,
    credential_paths,
    fold_name,
    own_paths,
    protected_name,
)


def test_credentials_are_found_in_both_homes_of_a_person() -> None:
    listed = Path(pwd.getpwuid(os.getuid()).pw_dir)
    found = credential_paths({"HOME": "/home/ada"})
    assert Path("/home/ada/.ssh") in found
    assert listed / ".ssh" in found
    assert len(found) == len(set(found))
    assert all(path.is_absolute() for path in found)


def test_variables_that_move_credentials_are_followed() -> None:
    found = credential_paths(
        {
            "HOME": "/home/ada",
            "XDG_CONFIG_HOME": "/x",
            "KUBECONFIG": "/k/one:/k/two",
            "KRB5CCNAME": "FILE:/tmp/krb5cc_0",
            "DOCKER_CONFIG": "/d",
            "CARGO_HOME": "relative/is/ignored",
            "GNUPGHOME": "/g/../gnupg",
        }
    )
    wanted = ["/x/gh", "/k/one", "/k/two", "/tmp/krb5cc_0", "/d/config.json", "/gnupg"]
    assert {Path(path) for path in wanted} <= set(found)
    assert not any("relative" in path.parts for path in found)


def test_no_variable_makes_the_whole_disk_a_credential() -> None:
    assert Path("/") not in credential_paths({"HOME": "/", "GNUPGHOME": "/", "KUBECONFIG": "//"})


@pytest.mark.parametrize("path", [*CREDENTIALS, *GIT_CONTROLS])
def test_listed_paths_are_relative_and_plain(path: str) -> None:
    assert not os.path.isabs(path)
    assert os.path.normpath(path) == path
    assert ".." not in path.split("/")


@pytest.mark.parametrize("name", sorted(PROTECTED_FOLDERS | PROTECTED_FILES))
def test_listed_names_are_folded(name: str) -> None:
    assert fold_name(name) == name


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("src/app.py", ""),
        ("a/.GIT/Hooks/pre-commit", ".git"),
        ("sub/.vscode/tasks.json", ".vscode"),
        ("NEXUS.md", "nexus.md"),
        ("NEXUS.md/other", ""),
        (".g\u200bit/config", ".git"),
        ("docs/.envrc.", ".envrc"),
        ("", ""),
    ],
)
def test_names_are_protected_however_they_are_spelled(path: str, name: str) -> None:
    assert protected_name(Path(path).parts) == name


def test_the_cache_is_not_among_our_own_secrets() -> None:
    own = Places(Path("/n/config"), Path("/n/data"), Path("/n/cache"), Path("/n/log"))
    assert own_paths(own) == (own.config, own.data, own.log)
