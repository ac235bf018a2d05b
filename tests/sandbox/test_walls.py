"""The walls, one by one: what must fail fails, what must work works; per backend, version of Landlock and user.

All attempts of one ground run in one confined process for each profile; the tests look at what they found.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from programs import missing
from sandbox.scene import GROUNDS, Ground, Scene, attempt_all, in_user, open_scene
from search import variant

from nexus_cli.sandbox.backend import Backend

NO, YES = "refused", "works"
BWRAP_ONLY, LANDLOCK_ONLY, ROOT_ONLY = "refused by bwrap", "refused by Landlock", "refused to root"


@dataclass(frozen=True, slots=True)
class Wall:
    """One attempt and how it must end."""

    number: int
    name: str
    words: str
    """A line of bash that succeeds if the attempt does; "" for an attempt of that name in `attempts.py`."""
    verdict: str = NO
    since: int = 1
    """Landlock before this version lets it pass."""
    read: str = ""
    """The verdict in the profile `read`, "" for the same."""
    needs: str = ""
    """A program."""

    def expected(self, ground: Ground, profile: str) -> bool:
        """True if the attempt is to succeed."""
        verdict = (self.read or self.verdict) if profile == "read" else self.verdict
        if ground.backend is Backend.LANDLOCK and ground.abi < self.since:
            return True
        if verdict == ROOT_ONLY:
            return ground.user != "root"
        by = {YES: (), NO: (Backend.BWRAP, Backend.LANDLOCK), BWRAP_ONLY: (Backend.BWRAP,)}
        return ground.backend not in by.get(verdict, (Backend.LANDLOCK,))


WALLS = [
    Wall(1, "a new file outside", "echo x > $OUT/new"),
    Wall(1, "a file outside appended to", "echo x >> $OUT/file"),
    Wall(1, "a file outside removed", "rm $OUT/file"),
    Wall(1, "a new file inside", "echo x > inside && test -s inside && rm inside", YES, read=NO),
    Wall(2, "a new file at home", "echo x > $HOME/new"),
    Wall(2, "start-up files at home", "echo x >> $HOME/.bashrc"),
    Wall(2, "programs at home", "mkdir -p $HOME/.local/bin"),
    Wall(3, "a file in the common /tmp", "f=/tmp/nexus-wall-$$; echo x > $f && rm $f"),
    Wall(3, "a file in TMPDIR", "f=$(mktemp) && echo x > $f && rm $f", YES),
    Wall(4, "through a link to a file", "ln -s $OUT/file l4; echo x > l4"),
    Wall(4, "through a link to a folder", "ln -s $OUT d4; echo x > d4/new"),
    Wall(4, "through a link inside", "echo x > t4 && ln -s t4 l4b && echo y > l4b && grep y t4", YES, read=NO),
    Wall(
        5,
        "a link swapped in meanwhile",
        "(while :; do ln -sfn $OUT s5; ln -sfn sub s5; done) & p=$!; "
        "sleep 0.1; for i in $(seq 2000); do echo x > s5/raced; test -e $OUT/raced && break; done; kill $p; "
        "test -e $OUT/raced",
    ),
    Wall(6, "a hard link of a file outside", "ln $OUT/file h6 && echo x >> h6"),
    Wall(6, "a hard link inside", "echo x > a6 && ln a6 b6", YES, read=NO),
    Wall(7, "moved out", "echo x > r7; mv r7 $OUT/r7"),
    Wall(7, "moved in", "mv $OUT/long moved7"),
    Wall(7, "moved between folders inside", "echo x > r7b && mv r7b sub/r7b", YES, read=NO),
    Wall(8, "by the folder of another process", "echo x > /proc/$VICTIM/cwd/x8"),
    Wall(8, "by /proc/self/root", "echo x > /proc/self/root$OUT/new8"),
    Wall(8, "by the root of another process", "echo x > /proc/$VICTIM/root$OUT/new8"),
    Wall(9, "truncate", ""),
    Wall(9, "truncating read", ""),
    Wall(9, "openat2", ""),
    Wall(9, "truncated by the shell", ": > $OUT/long"),
    Wall(10, "chmod", "", BWRAP_ONLY, read=NO),
    Wall(10, "utime", "", BWRAP_ONLY, read=NO),
    Wall(10, "xattr", "", BWRAP_ONLY, read=NO),
    Wall(10, "chmod inside", "echo x > m10 && chmod 700 m10 && touch -d 2020-01-01 m10", YES, read=NO),
    Wall(11, "a pipe outside", "mkfifo $OUT/pipe"),
    Wall(11, "a pipe outside that was there", "exec 9<>$OUT/fifo", LANDLOCK_ONLY, read=NO),
    Wall(11, "a pipe inside", "mkfifo pipe11", YES, read=NO),
    Wall(11, "a device", "mknod device11 c 1 3"),
    Wall(12, "devices", ""),
    Wall(12, "terminal", ""),
    Wall(12, "/dev/null and its kind", "echo x > /dev/null && head -c1 /dev/zero >&2 && head -c1 /dev/urandom", YES),
    Wall(13, "inherited", ""),
    Wall(13, "an inherited descriptor in the shell", "echo x >&$INHERITED"),
    Wall(27, "the project itself moved", "mv $BASE/project $BASE/p2"),
    Wall(30, "a key by its path", "cat $HOME/.ssh/id_rsa"),
    Wall(30, "a key by a link", "ln -s $HOME/.ssh/id_rsa k30; cat k30"),
    Wall(30, "a key by a pattern", "cat $HOME/.s*/id*"),
    Wall(30, "a key by a hard link", "ln $HOME/.ssh/id_rsa k30h && cat k30h"),
    Wall(30, "a key copied with its folder", "cp -r $HOME/.ssh c30 && cat c30/id_rsa"),
    Wall(30, "a key by /proc/1/root", "cat /proc/1/root$HOME/.ssh/id_rsa"),
    Wall(30, "a key by /proc/self/root", "cat /proc/self/root$HOME/.netrc"),
    Wall(30, "a key below .config", "cat $HOME/.config/gh/hosts.yml"),
    Wall(30, "other files at home", "grep plain $HOME/plain", YES, read=NO),
    Wall(30, "the system", "ls / && cat /etc/passwd", YES),
    Wall(32, "the ledger", "cat $NEXUS/data/ledger.db"),
    Wall(33, "environ", ""),
    Wall(33, "memory", ""),
    Wall(33, "maps", ""),
    Wall(33, "descriptors", ""),
    Wall(33, "root", ""),
    Wall(34, "keys in its own environment", 'env | grep -q "SECRET\\|KEY="'),
    Wall(35, "attach", ""),
    Wall(36, "tcp", ""),
    Wall(36, "udp", ""),
    Wall(36, "icmp", ""),
    Wall(36, "raw", ""),
    Wall(36, "packet", ""),
    Wall(37, "tcp6", ""),
    Wall(38, "/dev/tcp", "exec 9<>/dev/tcp/127.0.0.1/$PORT"),
    Wall(39, "dns", ""),
    Wall(40, "unix", ""),
    Wall(40, "abstract", ""),
    Wall(40, "datagram pair", ""),
    Wall(40, "a service of the session", "systemd-run --user true", needs="systemd-run"),
    Wall(41, "netlink", "", LANDLOCK_ONLY),
    Wall(42, "vsock", ""),
    Wall(43, "io_uring", ""),
    Wall(44, "loopback", "", LANDLOCK_ONLY),
    Wall(45, "asyncio", "", YES),
    Wall(45, "socketpair", "", YES),
    Wall(45, "pool", "", YES, read=LANDLOCK_ONLY),
    Wall(46, "kill", "", since=6),
    Wall(46, "read memory", ""),
    Wall(46, "take descriptor", ""),
    Wall(46, "limits", ""),
    Wall(46, "priority", ""),
    Wall(46, "scheduler", ""),
    Wall(46, "processors", ""),
    Wall(46, "priority of disks", ""),
    Wall(46, "move pages", ""),
    Wall(46, "shared memory", ""),
    Wall(46, "message queue", ""),
    Wall(46, "named queue", ""),
    Wall(46, "its own threads", "", YES),
    Wall(46, "its own limits", "", YES),
    Wall(48, "a namespace", "unshare -Urm true"),
    Wall(48, "bwrap in bwrap", "bwrap --bind / / true", needs="bwrap"),
    Wall(48, "chroot", ""),
    Wall(49, "new privileges", "grep -q '^NoNewPrivs:.*0' /proc/self/status"),
    Wall(49, "dangerous capabilities", "capsh --has-p=cap_sys_admin || capsh --has-p=cap_sys_ptrace", needs="capsh"),
    Wall(49, "setuid", ""),
    Wall(49, "setgid", "", ROOT_ONLY, read=NO),
    Wall(49, "made setuid", ""),
    Wall(49, "node setuid", ""),
    Wall(49, "openat2 setuid", ""),
    Wall(49, "setuid by the shell", "cp /bin/true s49 && chmod u+s s49 && test -u s49"),
    Wall(49, "other modes", "", YES, read=NO),
    Wall(49, "copied", "cp -p /bin/true c49 && install -m 755 c49 i49 && tar c c49 | tar xp", YES, read=NO),
    Wall(50, "settings of the kernel", "exec 9>>/proc/sys/kernel/core_pattern"),
    Wall(50, "other settings in /proc", "exec 9>>/proc/mtrr"),
    Wall(50, "tables of cron", "f=$(mktemp -p /etc/cron.d nexus.XXXXXX) && rm $f"),
    Wall(51, "x32", ""),
    Wall(51, "32 bit", ""),
    Wall(51, "a library loaded first", "LD_PRELOAD=libc.so.6 bash -c 'echo x > $OUT/preload'"),
    Wall(53, "memfd", "", YES),
    Wall(53, "memfd out", ""),
    Wall(53, "keyring", ""),
    Wall(53, "bpf", ""),
    Wall(53, "by handle", ""),
]
SHELL = {wall.name: wall.words for wall in WALLS if wall.words}


@cache
def results(ground: Ground, profile: str) -> dict[str, str]:
    """What became of each attempt; `changed` if anything outside is not as it was."""

    def act() -> dict[str, str]:
        with open_scene(ground) as scene:
            scene.environ |= {"API_KEY": "x", "NPM_TOKEN": "x", "DB_PASSWORD": "x", "AWS_SECRET_ACCESS_KEY": "x"}
            before = fingerprint(scene)
            found = attempt_all(scene, scene.profile(profile), SHELL)  # type: ignore[arg-type]
            after = fingerprint(scene)
            return found | {"changed": ", ".join(sorted(str(one) for one in before ^ after))}

    return in_user(ground.user, act)


def fingerprint(scene: Scene) -> set[tuple[str, str]]:
    """Every file outside the project with its content."""
    found = set()
    for folder in ("home", "out", "nexus/data"):
        for path in Path(scene.base / folder).rglob("*"):
            if path.is_relative_to(scene.own.data / "guarded"):
                continue  # nexus's own record of the command
            content = path.read_text() if path.is_file() else ""
            found.add((str(path.relative_to(scene.base)), content))
    return found


def cases() -> Iterator[Any]:
    """Yield each ground with each profile; the gate has each profile with one of two users."""
    for ground in GROUNDS:
        for profile in ("write", "read"):
            if profile == "read" and ground.abi not in (0, 1, 7):
                continue
            case = pytest.param(ground, profile, id=f"{ground.name}-{profile}")
            is_usual = ground.abi in (0, 7) and ground.name.startswith("root") == (profile == "write")
            yield case if is_usual else variant(case)


@pytest.mark.parametrize(("ground", "profile"), list(cases()))
def test_every_attempt_fails_where_a_wall_stands_and_succeeds_where_none_does(ground: Ground, profile: str) -> None:
    if ground.missing:
        pytest.skip(ground.missing)
    found, wrong, left_out = results(ground, profile), dict[str, str](), set[str]()
    for wall in WALLS:
        if wall.needs and shutil.which(wall.needs) is None:
            left_out.add(missing(wall.needs))
        elif wall.name not in found and "no Python" in found:
            left_out.add("no Python that this user may run")
        elif (found[wall.name] == "") is not wall.expected(ground, profile):
            wrong[f"{wall.number:02} {wall.name}"] = found[wall.name] or "it succeeded"
    assert not wrong
    if left_out:
        pytest.skip(min(left_out))


@pytest.mark.parametrize(
    "ground",
    [ground if ground.abi in (0, 7) else variant(ground) for ground in GROUNDS],
    ids=lambda ground: ground.name,
)
def test_nothing_outside_is_changed_by_all_of_them(ground: Ground) -> None:
    if ground.missing:
        pytest.skip(ground.missing)
    assert results(ground, "write")["changed"] == ""


NEVER = {
    "inherited",
    "an inherited descriptor in the shell",
    "keys in its own environment",
    "dns",
    "icmp",
    "tcp6",
    "x32",
    "bpf",
    "a key by /proc/1/root",
    "a service of the session",
}
"""Attempts that fail without walls too: by the care of whoever starts the command, or on most systems."""
ROOTS = {
    "settings of the kernel",
    "other settings in /proc",
    "a device",
    "devices",
    "terminal",
    "raw",
    "packet",
    "tables of cron",
    "chroot",
    "by handle",
    "a namespace",
    "bwrap in bwrap",
    "dangerous capabilities",
    "io_uring",
}
"""Attempts that need more than an ordinary user has, or a system that lets everybody."""


@pytest.mark.matrix
@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_the_attempts_succeed_where_there_are_no_walls() -> None:
    """Otherwise a failure would prove nothing."""
    user = "ordinary" if os.getuid() else "root"
    found = results(Ground(user, Backend.NONE), "none")
    excused = NEVER if user == "root" else NEVER | ROOTS
    installed = {wall.name for wall in WALLS if not wall.needs or shutil.which(wall.needs)}
    assert not {name: why for name, why in found.items() if why and name in installed - excused}
