"""The probe: it believes only walls that it has tried, and a cache file only so far as that cannot weaken a wall."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from programs import why_no_bwrap
from search import sample

from nexus_cli.config.paths import Places
from nexus_cli.sandbox import probe as probe_module
from nexus_cli.sandbox import syscalls
from nexus_cli.sandbox.backend import Backend, BackendProbe
from nexus_cli.sandbox.bwrap import find_bwrap
from nexus_cli.sandbox.confined_launch import SandboxError
from nexus_cli.sandbox.confinement import Confinement
from nexus_cli.sandbox.landlock import landlock_abi
from nexus_cli.sandbox.probe import WALLS, find_backend
from nexus_cli.sandbox.profile import ProfileName, SandboxProfile, make_profile

needs_landlock = pytest.mark.skipif(landlock_abi() == 0, reason="this kernel has no Landlock")
needs_bwrap = pytest.mark.skipif(bool(why_no_bwrap()), reason=why_no_bwrap())


@pytest.fixture
def own(tmp_path: Path) -> Places:
    home = tmp_path / "nexus"
    return Places(home / "config", home / "data", home / "cache", home / "log")


@pytest.fixture
def tries(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Backend]]:
    """The backends whose walls were tried."""
    found: list[Backend] = []
    real = probe_module._try_walls

    def counted(candidate: BackendProbe) -> Any:
        found.append(candidate.backend)
        return real(candidate)

    monkeypatch.setattr(probe_module, "_try_walls", counted)
    yield found


@pytest.mark.matrix
@needs_landlock
def test_walls_are_tried_once_for_a_boot_and_a_setting(own: Places, tries: list[Backend]) -> None:
    first, second = (find_backend("landlock", own=own) for _ in range(2))
    assert first == second and first.backend is Backend.LANDLOCK and first.walls == WALLS
    assert tries == [Backend.LANDLOCK]
    find_backend("landlock", own=own, abi=3)
    assert len(tries) == 2


@pytest.mark.matrix
@needs_landlock
@pytest.mark.parametrize("abi", range(8))
def test_every_older_landlock_holds_its_walls_or_is_none(own: Places, abi: int) -> None:
    found = find_backend("landlock", own=own, abi=abi, keep=False)
    assert found.backend is (Backend.LANDLOCK if abi else Backend.NONE) and found.abi == min(abi, landlock_abi())
    assert abi or "Landlock is not available" in found.why


@pytest.mark.matrix
@needs_landlock
def test_a_cache_file_cannot_name_a_backend_that_is_not_there(own: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    find_backend("auto", own=own)
    kept = own.cache / "sandbox.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    monkeypatch.setattr(probe_module, "landlock_abi", lambda: 0)
    monkeypatch.setattr(probe_module, "find_bwrap", lambda project: None)
    assert find_backend("auto", own=own).backend is Backend.NONE
    assert "landlock" in kept.read_text() or "bwrap" in kept.read_text()


@pytest.mark.matrix
@needs_landlock
@pytest.mark.parametrize(
    "text",
    sample([b"", b"[]", b'"x"', b"\xff", b'{"landlock": 3}', b'{"landlock": "none"}', b"{" * 99999, b"[" * 99999], 3),
)
def test_a_damaged_cache_file_counts_as_none(own: Places, tries: list[Backend], text: bytes) -> None:
    own.cache.mkdir(parents=True)
    (own.cache / "sandbox.json").write_bytes(text)
    assert find_backend("landlock", own=own).backend is Backend.LANDLOCK and len(tries) == 1


@needs_landlock
@pytest.mark.parametrize("make", sample([os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)], 3))
def test_what_is_no_file_in_the_place_of_the_cache_holds_nothing_up(own: Places, make: Callable[[Path], None]) -> None:
    own.cache.mkdir(parents=True)
    make(own.cache / "sandbox.json")
    assert find_backend("landlock", own=own).backend is Backend.LANDLOCK


@pytest.mark.matrix
@needs_landlock
def test_a_cache_file_that_others_can_write_is_not_read(own: Places, tries: list[Backend]) -> None:
    find_backend("landlock", own=own)
    (own.cache / "sandbox.json").chmod(0o622)
    find_backend("landlock", own=own)
    assert len(tries) == 2
    kept = json.loads((own.cache / "sandbox.json").read_text())
    (own.cache / "sandbox.json").write_text(json.dumps({"landlock": kept["landlock"].replace("landlock", "bwrap")}))
    assert find_backend("landlock", own=own).backend is Backend.LANDLOCK and len(tries) == 3


@needs_landlock
def test_a_kernel_that_accepts_rules_and_holds_none_starts_nothing(
    own: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The probe passed; then the wall fails."""
    found = find_backend("landlock", own=own, keep=False)
    project = tmp_path / "project"
    project.mkdir()
    profile = make_profile("write", project=project, cwd=project, own=own, temp=None)
    real = syscalls.syscall

    def without_landlock(number: int, *arguments: object) -> int:
        return 0 if number == syscalls.LANDLOCK_RESTRICT_SELF else real(number, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(syscalls, "syscall", without_landlock)
        with pytest.raises(SandboxError, match="does not enforce"):
            Confinement(profile, found).start(["touch", str(project / "made")])
    with monkeypatch.context() as patched:
        patched.setattr(syscalls, "install_filter", lambda program: None)
        with pytest.raises(SandboxError, match="does not enforce"):
            Confinement(profile, found).start(["touch", str(project / "made")])
    assert not (project / "made").exists()
    assert Confinement(profile, found).start(["touch", str(project / "made")]).wait() == 0


@pytest.mark.parametrize(
    ("setting", "why"),
    [("seatbelt", "only macOS"), ("bwrap", "no bwrap"), ("auto", "Landlock is not available, and no usable bwrap")],
)
@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_a_backend_that_is_missing_is_named(
    own: Places, monkeypatch: pytest.MonkeyPatch, setting: str, why: str
) -> None:
    monkeypatch.setattr(probe_module, "landlock_abi", lambda: 0)
    monkeypatch.setattr(probe_module, "find_bwrap", lambda project: None)
    found = find_backend(setting, own=own)
    assert found.backend is Backend.NONE and why in found.why


def test_without_a_backend_only_the_profile_without_walls_can_start(own: Places, tmp_path: Path) -> None:
    off = find_backend("off", own=own)
    assert off.backend is Backend.NONE and "off" in off.why
    for name in ("read", "write", "net"):
        with pytest.raises(SandboxError, match="off"):
            Confinement(make_profile(name, project=tmp_path, cwd=tmp_path, own=own, temp=None), off)
    none = make_profile("none", project=tmp_path, cwd=tmp_path, own=own, temp=None)
    assert Confinement(none, off).start(["touch", str(tmp_path / "made")]).wait() == 0


@needs_bwrap
def test_a_bwrap_that_others_can_put_there_is_never_used(tmp_path: Path) -> None:
    real = find_bwrap(None)
    assert real is not None
    project, shared, safe = tmp_path / "project", tmp_path / "shared", tmp_path / "safe"
    for folder in (project, shared, safe):
        folder.mkdir()
        shutil.copy(real, folder / "bwrap")
    shared.chmod(0o777)
    system = str(real.parent)
    for named in (str(project), str(shared), "project", ""):
        assert find_bwrap(project, os.pathsep.join((named, system))) == real
    assert find_bwrap(Path("/"), system) == real
    (project / "link").symlink_to(safe)
    assert find_bwrap(project, str(project / "link")) is None
    (safe / "bwrap").unlink()
    (safe / "bwrap").symlink_to(project / "bwrap")
    assert find_bwrap(project, str(safe)) is None


@pytest.mark.matrix
@needs_bwrap
def test_a_bwrap_that_only_pretends_is_found_out(own: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setattr(probe_module, "find_bwrap", lambda project: fake)
    found = find_backend("bwrap", own=own)
    assert found.backend is Backend.NONE and "failed checks: no write outside" in found.why
    if landlock_abi():
        assert find_backend("auto", own=own).backend is Backend.LANDLOCK


@needs_bwrap
def test_without_user_namespaces_landlock_takes_over(
    own: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(probe_module, "find_bwrap", lambda project: fake)
    found = find_backend("auto", own=own)
    assert found.backend is (Backend.LANDLOCK if landlock_abi() else Backend.NONE)
    assert "No permissions to create a new namespace" in found.why


@pytest.mark.parametrize("backend", ["landlock", "bwrap"])
def test_a_backend_in_which_a_reader_writes_is_none(own: Places, monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    if find_backend(backend, own=own, keep=False).backend == "none":
        pytest.skip(f"{backend} does not work here")
    real = SandboxProfile

    def make_writable(name: ProfileName, project: Path, cwd: Path, **options: Any) -> Any:
        made = real(name, project, cwd, **options)
        return replace(made, writable=(project,)) if name == "read" else made

    monkeypatch.setattr(probe_module, "SandboxProfile", make_writable)
    found = find_backend(backend, own=own, keep=False)
    assert found.backend == "none" and "no effect of readers" in found.why


def test_the_room_is_not_loaded_at_the_start() -> None:
    started = "nexus_cli.cli.app, nexus_cli.tools.process, nexus_cli.commands.worktree"
    code = f"import {started}, sys; sys.exit('nexus_cli.sandbox' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
