"""`warm.minutes = "auto"`: where a warm process is used, after which call one is left, and what that records."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nexus_cli.warm import auto, place

NOW = 1_700_000_000.0


@pytest.fixture(autouse=True)
def _at_a_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A terminal of one's own on every stream, no CI, memory enough."""
    monkeypatch.delenv("CI")
    monkeypatch.setattr(os, "isatty", lambda number: True)
    monkeypatch.setattr(os, "fstat", lambda number: os.stat(tmp_path))
    monkeypatch.setattr(auto, "free_memory", lambda: auto.FREE_MEMORY)


def test_at_a_terminal_nothing_stands_in_the_way() -> None:
    assert auto.find_obstacle() == "" and auto.is_wanted() and auto.may_leave(["ask", "hi"])


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("CI", "true", "CI"),
        ("CI", "1", "CI"),
        ("CI", "false", ""),
        ("CI", "0", ""),
        ("CI", "", ""),
        ("GIT_EXEC_PATH", "/usr/lib/git-core", "GIT_EXEC_PATH"),
        ("GIT_INDEX_FILE", ".git/index", "GIT_INDEX_FILE"),
        ("GIT_EDITOR", "vi", ""),
        ("NEXUS_CHILD_OF", "7", "NEXUS_CHILD_OF"),
        ("SUDO_UID", "1000", "user"),
    ],
)
def test_the_environment_tells_where_nobody_waits(
    name: str, value: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert (why in auto.find_obstacle()) if why else not auto.find_obstacle()
    assert auto.is_wanted() is not bool(why)


def test_a_variable_or_a_number_in_the_settings_decides_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Path(place.own_folders()[0])
    settings.parent.mkdir(parents=True)
    settings.write_text("warm.minutes = 5\n")
    monkeypatch.setenv("CI", "true")
    assert auto.is_wanted(), "it was asked for"
    monkeypatch.setenv("NEXUS_WARM", "0")
    assert not auto.is_wanted()
    monkeypatch.delenv("NEXUS_WARM")
    settings.write_text("warm.minutes = 0\n")
    monkeypatch.delenv("CI")
    assert not auto.is_wanted()


def test_the_terminal_of_another_user_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1_234_567)
    monkeypatch.setattr(os, "geteuid", lambda: 1_234_567)
    assert "another user" in auto.find_obstacle()


def test_without_a_terminal_on_stderr_the_session_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def fail(path: str, flags: int) -> int:
        opened.append(path)
        raise OSError(6, "No such device or address")

    monkeypatch.setattr(os, "isatty", lambda number: False)
    monkeypatch.setattr(os, "open", fail)
    assert auto.find_obstacle() == "there is no terminal" and opened == ["/dev/tty"]
    assert not auto.may_leave(["ask", "hi"]), "nobody would read that it was left"


@pytest.mark.parametrize(
    ("words", "leaves"),
    [
        (["ask", "hi"], True),
        (["--json", "ask", "hi"], True),
        (["ask", "--no-save", "hi"], False),
        (["ask", "-q", "hi"], False),
        (["ask", "--quiet"], False),
        (["ask", "-vq"], False),
        (["ask", "quick question"], True),
        ([], False),
        (["-c"], False),
    ],
)
def test_a_call_that_shall_leave_nothing_or_say_nothing_leaves_none(words: list[str], leaves: bool) -> None:
    assert auto.may_leave(words) is leaves


def test_piped_input_to_plain_nexus_is_a_one_shot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "isatty", lambda number: number == 2)
    assert auto.may_leave([])


def test_memory_decides_whether_one_is_left_not_whether_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for free, leaves in ((auto.FREE_MEMORY - 1, False), (None, True)):
        monkeypatch.setattr(auto, "free_memory", lambda free=free: free)
        assert auto.may_leave(["ask"]) is leaves and not auto.find_obstacle()


class Calls:
    """Calls that begin and end at times of ours, by what they leave in the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def end(self, began: float, *, now: float | None = None, outdated: bool = False) -> bool:
        """True if the call that began then, and ends `now`, is the second one."""
        before = self._stamps()
        found = auto.is_second_call(str(self.folder), began, outdated=outdated)
        for path, time in self._stamps().items():
            if before.get(path) != time:
                os.utime(path, (now or began, now or began))
        return found

    def _stamps(self) -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in self.folder.iterdir()} if self.folder.exists() else {}


def test_the_second_call_within_ten_minutes_is_told_once(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "warm"
    calls = Calls(folder)
    assert [calls.end(NOW + after) for after in (0, 601, 1201, 1232, 1233)] == [False, False, True, False, True]
    assert (tmp_path / "cache").stat().st_mode & 0o077 == folder.stat().st_mode & 0o077 == 0
    calls.end(NOW)
    assert not calls.end(NOW - 90_000), "the clock was set back"


def test_of_calls_side_by_side_one_is_told(tmp_path: Path) -> None:
    calls = Calls(tmp_path / "warm")
    found = [calls.end(NOW + number / 10, now=NOW + 3 + number) for number in range(10)]
    assert found == [False, True] + 8 * [False]
    assert not any(calls.end(NOW + 4 + number) for number in range(6)), "it is still starting"
    assert [calls.end(NOW + 60), calls.end(NOW + 61)] == [False, True], "it has died"


def test_after_an_upgrade_the_calls_are_counted_anew(tmp_path: Path) -> None:
    calls = Calls(tmp_path / "warm")
    assert [calls.end(NOW), calls.end(NOW + 1)] == [False, True]
    assert [calls.end(NOW + 5, outdated=True), calls.end(NOW + 9)] == [False, True]


def test_where_nothing_can_be_recorded_there_is_no_second_call(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("no folder")
    for _ in range(2):
        with pytest.raises(OSError):
            auto.is_second_call(str(tmp_path / "cache" / "warm"), NOW)
        assert not auto.is_second_call("~/.cache/nexus/warm", NOW), "without a home"
    assert os.umask(0o022) == 0o022


def test_a_stamp_that_leads_elsewhere_or_lies_among_others_is_not_written(tmp_path: Path) -> None:
    folder, other = tmp_path / "warm", tmp_path / "other"
    folder.mkdir(mode=0o700)
    other.write_text("kept")
    os.utime(other, (1, 1))
    stamp = Path(f"{place.socket_path(str(folder))}.asked")
    stamp.symlink_to(other)
    with pytest.raises(OSError):
        auto.is_second_call(str(folder), NOW)
    assert other.read_text() == "kept"
    stamp.unlink()
    os.mkfifo(stamp)
    with pytest.raises(OSError):
        auto.is_second_call(str(folder), NOW)
    stamp.unlink()
    folder.chmod(0o755)
    assert [auto.is_second_call(str(folder), NOW) for _ in range(3)] == [False] * 3 and not list(folder.iterdir())


def test_the_limit_of_the_control_group_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    if auto.free_memory() is None:
        pytest.skip("the system does not tell")
    monkeypatch.setattr(auto, "CGROUP", str(tmp_path))
    most = auto.free_memory()
    assert most
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert (auto.free_memory() or 0) > 1000
    (tmp_path / "memory.max").write_text("5000\n")
    assert auto.free_memory() == 4000
