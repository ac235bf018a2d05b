"""The file with the token of a server, and the addresses that it is found by."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexus_cli.config.server_token import read_token, refuse_bad_url, store_token, token_file
from nexus_cli.core.errors import NexusError


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:80", "http://[::1]:8000", "http://localhost:1", "unix:/run/a b.sock"]
)
def test_a_token_is_found_by_the_address_of_its_server(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEXUS_HOME", str(tmp_path))
    refuse_bad_url(url)
    path = store_token(url, "a-token")
    assert (
        path == token_file(url) and path.stat().st_mode & 0o777 == 0o600 and path.parent == tmp_path / "data" / "serve"
    )
    assert read_token(url) == "a-token"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "somewhere",
        "http://",
        "http://:80",
        "http://[::1",
        "http://a:99999",
        "http://a:x",
        "http://a:0",
        "ftp://a:1",
        "unix:",
    ],
)
def test_what_is_no_address_of_a_server_is_said_to_be_none(url: str) -> None:
    with pytest.raises(NexusError, match="not a server URL"):
        refuse_bad_url(url)


@pytest.mark.parametrize("content", [b"", b"\n", b"a\nb", b"\xff", "\u00e9".encode(), b"a\0b"])
def test_a_file_without_a_token_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(NexusError, match="contains no token"):
        read_token("http://127.0.0.1:1", path)
