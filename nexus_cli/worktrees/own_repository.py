"""The repository of a worktree: its own branch, index, references, stash and new objects.

It borrows the objects of the project's repository, which nothing in the worktree writes to. The commits of its branch
are published there: when a stay ends, and before the worktree is removed.

Commands of a sandbox write the repository of a worktree. Once one may have run there, git only reads it, and only while
no link leads out of it; the one file that is written, `packed-refs`, is replaced through a descriptor of its folder.
The project's repository is written by `writing_git`, which its configuration does not reach.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from nexus_cli.config.private_file import replace_private_file
from nexus_cli.config.programs import find_program
from nexus_cli.config.worktree_record import WorktreeRecord, find_worktree
from nexus_cli.core.errors import NexusError
from nexus_cli.core.real_files import REPLACED, open_folder, read_regular, scan_folder, suppress_errors
from nexus_cli.sandbox.own_git import Git, GitError, explain
from nexus_cli.tree.write_state import replace_locked
from nexus_cli.worktrees.snapshot_store import quote_alternate

REFERENCES, PUBLISHED = "references", "published"
"""Files of a record folder: the references that the worktree got from the project's repository, and the branches there
to which its commits were published, each with the last one."""
OWN_REFERENCES, HOLDS = "refs/worktree/", "refs/nexus/worktrees/"
"""References of one worktree alone, and those in the project's repository that keep what worktrees borrow."""
UNPUBLISHED = "commits in the repository of the worktree, if any, were not copied to the project"
_NOT_COPIED = ("refs/stash", OWN_REFERENCES, "refs/nexus/", "refs/bisect/", "refs/rewritten/")
_COPIED_FILES = ("shallow", "info/exclude", "info/attributes", "info/sparse-checkout")
_READ_FOLDERS = frozenset({"objects", "refs", "logs", "info"})
"""Folders of a repository that git of ours reads."""
_SHA256 = 64
"""Digits of an object's name in a repository of that format."""
_BRANCHES = 100
"""Most names that are tried for the branch."""
_MAX_SETTINGS, _MAX_REFERENCES = 1 << 20, 64 << 20
"""Most bytes of a file of a repository that is copied, and of `packed-refs`."""


def hold_prefix(record: WorktreeRecord) -> str:
    """Return the beginning of the references in the project's repository that keep the objects a worktree borrows.

    The first commit has one from the moment the branch exists. All are shared: a `gc` in any linked worktree sees them.
    """
    return f"{HOLDS}{record.folder.parent.name}/{record.name}/"


def _hold_references(record: WorktreeRecord, git: Git, references: dict[bytes, bytes]) -> None:
    """Keep the objects of references that a worktree is or was given; its start is kept. Raises `GitError`."""
    prefix = os.fsencode(hold_prefix(record))
    object_ids = {*references.values()} - {os.fsencode(record.start)}
    if not object_ids:
        return
    merged = {*git.run("for-each-ref", "--format=%(objectname)", f"--merged={record.start}").splitlines()}
    output = git.run("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=b"\n".join(object_ids)).splitlines()
    kinds = (line.split(b" ") for line in output)
    needed = [oid for oid, kind in kinds if kind != b"missing" and (kind != b"commit" or oid not in merged)]
    lines = (b"update %s%s %s\n" % (prefix, oid, oid) for oid in needed)
    with writing_git(record, git) as writer:
        writer.run("update-ref", "--stdin", stdin=b"".join(lines))


def create_branch(record: WorktreeRecord, git: Git) -> WorktreeRecord:
    """Create the branch of a worktree in the project's repository, and the reference that holds its first commit.

    `git` runs in that repository. The record is saved first: a killed process leaves nothing that is not known.
    Raises `GitError` and `OSError`.
    """
    plain = f"worktree-{record.name}"
    for branch in (plain, *(f"{plain}-{number}" for number in range(2, _BRANCHES))):
        record = replace(record, branch=branch)
        record.save()
        lines = f"create refs/heads/{branch} {record.start}\n"
        lines += f"update {hold_prefix(record)}{record.start} {record.start}\n"
        with writing_git(record, git) as writer:
            status, _, errors = writer.try_run("update-ref", "--stdin", stdin=lines.encode())
        if status == 0:
            return record
        if not (b"exists" in errors and os.fsencode(branch) in errors):
            raise GitError(explain("update-ref", status, errors))
    raise GitError(f"found no free branch name that begins with {plain}")


def create_repository(record: WorktreeRecord, git: Git, git_dir: Path, staged: Iterable[bytes]) -> None:
    """Create the repository of a worktree in its new folder, without files; `git_dir` is that of its source project.

    `staged` are index entries: their objects are copied, because a clean-up of the project's repository would delete
    those that are in no commit. Raises `GitError` and `OSError`.
    """
    dot_git = record.folder / ".git"
    for name in ("objects/info", "objects/pack", "refs/heads", "info"):
        (dot_git / name).mkdir(parents=True)
    for name in _COPIED_FILES:
        for place in (record.repository, git_dir):
            if (data := _read_settings(place, name)) is not None:
                (dot_git / name).write_bytes(data)
    if (record.repository / "hooks").is_dir():
        (dot_git / "hooks").symlink_to(record.repository / "hooks")
    (dot_git / "config").write_bytes(_configuration(record, git_dir))
    (dot_git / "objects/info/alternates").write_bytes(
        os.fsencode(quote_alternate(record.repository / "objects")) + b"\n"
    )
    references = _list_references(git, record)
    _hold_references(record, git, references)
    (dot_git / "packed-refs").write_bytes(_format(references))
    (record.home / REFERENCES).write_bytes(_format(references))
    (dot_git / "refs/heads" / record.branch).write_text(f"{record.start}\n")
    (dot_git / "HEAD").write_text(f"ref: refs/heads/{record.branch}\n")
    of_head = {entry.split(None, 3)[2] for entry in git.items("ls-tree", "-r", "-z", record.start)}
    blobs = {entry.split(b" ", 2)[1] for entry in staged if not entry.startswith(b"160000")} - of_head
    if blobs:
        own_git = replace(own_repository_git(record), writes=(dot_git / "objects",))
        own_git.run("pack-objects", "-q", str(dot_git / "objects/pack/pack"), stdin=b"\n".join(sorted(blobs)) + b"\n")


def find_git(project: Path) -> str:
    """Return the path of git; raise `NexusError("config", ...)` if it is not installed."""
    program = find_program("git", project)
    if program is None:
        raise NexusError("config", "no worktree", "git was not found", "Install git")
    return program


def own_repository_git(record: WorktreeRecord) -> Git:
    """Return git in the repository of a worktree; no `commondir` file that a command left there is obeyed."""
    dot_git = str(record.folder / ".git")
    variables = {"GIT_DIR": dot_git, "GIT_COMMON_DIR": dot_git, "GIT_WORK_TREE": str(record.folder)}
    return Git(find_git(record.source), record.folder, variables, project=record.folder)


def has_own_repository(record: WorktreeRecord) -> bool:
    """True unless the worktree is a linked one, of version 0.2, or its repository was deleted or replaced, or leads
    elsewhere."""
    dot_git = record.folder / ".git"
    return is_closed(dot_git) and (dot_git / "HEAD").is_file() and borrows_objects(dot_git, record)


def is_closed(git_dir: Path) -> bool:
    """True if git that reads or writes this folder stays in it: no link, pipe or `commondir`, except in `hooks`."""
    waiting = [""]
    try:
        with open_folder(git_dir) as root:
            while waiting:
                place = waiting.pop()
                with open_folder(place, inside=root) as folder, scan_folder(folder) as entries:
                    for entry in entries:
                        name, is_folder = entry.name, entry.is_dir(follow_symlinks=False)
                        if not place and name == "hooks":
                            continue
                        is_known = is_folder or entry.is_file(follow_symlinks=False)
                        if not is_known or (not place and name == "commondir"):
                            return False
                        if is_folder and (place or name in _READ_FOLDERS):
                            waiting.append(f"{place}/{name}")
    except OSError:
        return False
    return True


def borrows_objects(git_dir: Path, record: WorktreeRecord) -> bool:
    """True if a git folder borrows objects from the repository of the worktree's project alone."""
    try:
        borrowed = read_regular(git_dir / "objects/info/alternates", _MAX_SETTINGS)
        return borrowed == os.fsencode(quote_alternate(record.repository / "objects")) + b"\n"
    except OSError:
        return False


def read_published(record: WorktreeRecord) -> dict[str, str]:
    """Return the branches in the project's repository that have commits of a worktree, each with the one that nexus
    put there last. The last branch is the current one."""
    published = {record.branch: record.start} if record.branch else {}
    with suppress(OSError):
        for line in (record.home / PUBLISHED).read_text().splitlines():
            tip, _, branch = line.partition(" ")
            published[branch] = tip
    return published


def read_tips(git: Git, branch: str) -> tuple[str, str]:
    """Return the commits of a branch and of HEAD, "" for none. Raises `GitError`."""
    tip = git.line("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")
    return tip, git.head()


def publish_branch(record: WorktreeRecord, *, everything: bool = False) -> str:
    """Copy the commits of a worktree to the project's repository, and move the worktree's branch there.

    A branch that somebody else moved, deleted or checked out stays as it is: the commits get another one, of which a
    line is returned, else "". With `everything` also copy the objects of its other references, without references
    there. Raises `GitError` and `OSError`.
    """
    if not has_own_repository(record):
        return UNPUBLISHED
    own_git, main = own_repository_git(record), repository_git(record)
    tip, head = read_tips(own_git, record.branch)
    published = read_published(record)
    branch, last = list(published.items())[-1]
    own_tips = list_own_references(record).values() if everything else ()
    new = {commit for commit in (tip, head, *own_tips) if commit not in ("", record.start, last)}
    if new:
        objects = quote_alternate(record.folder / ".git/objects", always=True)
        variables = {**main.variables, "GIT_ALTERNATE_OBJECT_DIRECTORIES": objects}
        lent = replace(main, variables=variables, reads=(record.folder / ".git/objects",))
        revisions = "".join(f"{revision}\n" for revision in (*new, "--not", record.start))
        pack = lent.run("pack-objects", "-q", "--revs", "--stdout", stdin=revisions.encode())
        with writing_git(record, main) as writer:
            writer.run("index-pack", "--stdin", stdin=pack)
    if tip in ("", last):
        return ""
    place = main.line("for-each-ref", "--format=%(objectname) %(worktreepath)", f"refs/heads/{branch}")
    old, _, checked_out = place.partition(" ")
    # A process that was killed before it noted what it published leaves the branch behind the commits.
    is_behind = old == last or (bool(old) and main.try_run("merge-base", "--is-ancestor", old, tip)[0] == 0)
    with writing_git(record, main) as writer:
        if is_behind and not checked_out:
            writer.run("update-ref", "-m", "nexus: work in the worktree", f"refs/heads/{branch}", tip, old)
            _save_published(record, {**published, branch: tip})
            return ""
        for number in range(2, _BRANCHES):
            free_branch = f"{record.branch}-{number}"
            if not writer.try_run("update-ref", f"refs/heads/{free_branch}", tip, "0" * len(tip))[0]:
                _save_published(record, {**published, free_branch: tip})
                return f"branch {branch} was moved, deleted or checked out: the commits are on {free_branch}"
    raise GitError(f"no branch whose name begins with {record.branch} could be created")


def _save_published(record: WorktreeRecord, published: dict[str, str]) -> None:
    lines = "".join(f"{tip} {branch}\n" for branch, tip in published.items())
    replace_private_file(record.home / PUBLISHED, lines.encode())


def delete_references(record: WorktreeRecord, git: Git, *, only_empty: bool) -> list[str]:
    """Delete the references of a worktree in its project's repository, in which `git` runs. Return the branches that
    stay.

    A branch stays if somebody moved it or checked it out; with `only_empty`, also if it has a commit. Raises
    `GitError`.
    """
    published = read_published(record)
    form = "--format=%(refname) %(objectname) %(worktreepath)"
    names = (f"refs/heads/{branch_name}" for branch_name in published)
    lines = git.line("for-each-ref", form, hold_prefix(record), *names).splitlines()
    places = {name: place for name, _, place in (line.partition(" ") for line in lines)}
    holds = [name for name in places if name.startswith(hold_prefix(record))]
    stay = []
    with writing_git(record, git, deletes=True) as writer:
        # Without a hold, a making that was killed has not created the branch.
        for branch, tip in published.items() if record.base or holds else ():
            old, _, checked_out = places.get(f"refs/heads/{branch}", "").partition(" ")
            if not old:
                continue
            is_ours = old in (record.start, tip) and not checked_out and not (only_empty and old != record.start)
            if not is_ours or writer.try_run("update-ref", "-d", f"refs/heads/{branch}", old)[0]:
                stay.append(branch)
        writer.run("update-ref", "--stdin", stdin="".join(f"delete {name}\n" for name in holds).encode())
    return stay


def refresh_references(record: WorktreeRecord) -> None:
    """Bring references that the project's repository has moved to the worktree, except those that the worktree moved.

    They go to `packed-refs`, and a reference of the worktree's own wins over that file. Raises `GitError` and
    `OSError`, also while a command holds the lock of that file.
    """
    if not has_own_repository(record):
        return
    main = repository_git(record)
    before, now = read_references(record), _list_references(main, record)
    if before == now:
        return
    _hold_references(record, main, now)
    with (
        open_folder(record.folder / ".git") as folder,
        replace_locked(folder, "packed-refs", 0o644) as file,
    ):
        packed = dict[bytes, bytes]()
        with suppress(FileNotFoundError):
            packed = _parse(read_regular("packed-refs", _MAX_REFERENCES, inside=folder))
        packed |= {name: oid for name, oid in now.items() if packed.get(name) == before.get(name)}
        file.write(_format(packed))
    replace_private_file(record.home / REFERENCES, _format(now))


def read_references(record: WorktreeRecord) -> dict[bytes, bytes]:
    """Return the references that a worktree got from the project's repository, with their objects."""
    with suppress(OSError):
        return _parse((record.home / REFERENCES).read_bytes())
    return {}


def list_own_references(record: WorktreeRecord) -> dict[str, str]:
    """Return the references that were created or moved in a worktree, its branch apart, with their objects: branches,
    tags, the stash."""
    received = read_references(record)
    return {
        os.fsdecode(name): oid.decode()
        for name, oid in _list_references(own_repository_git(record), record, ("refs/remotes/", HOLDS)).items()
        if received.get(name) != oid
    }


def repository_git(record: WorktreeRecord) -> Git:
    """Return git in the repository of a worktree's project; raise `GitError` if a command led it elsewhere."""
    place = record.repository
    variables = {"GIT_DIR": str(place)}
    if find_worktree(place) is not None:
        variables["GIT_COMMON_DIR"] = str(place)
        if not is_closed(place):
            raise GitError(f"the repository {place} contains links out of it")
    return Git(find_git(record.source), place if place.is_dir() else record.home, variables, project=place)


@contextmanager
def writing_git(record: WorktreeRecord, git: Git, *, deletes: bool = False) -> Iterator[Git]:
    """Yield a git that writes references and objects of the repository that `git` reads, and nothing else there.

    It has a git folder of its own with links to them: no line of the repository's configuration is in force. With
    `deletes` it also writes `packed-refs`, for which git creates files beside it. Raises `OSError`.
    """
    place = record.repository
    with tempfile.TemporaryDirectory(prefix="git-", dir=record.home) as name:
        git_dir = Path(name)
        config = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n\tlogAllRefUpdates = true\n"
        config += "[extensions]\n\tobjectFormat = sha256\n" if len(record.start) == _SHA256 else ""
        config += "[extensions]\n\trefStorage = reftable\n" if (place / "reftable").is_dir() else ""
        (git_dir / "config").write_text(config)
        (git_dir / "HEAD").write_text("ref: refs/heads/none\n")
        written = [place / folder for folder in ("objects", "refs", "logs", "reftable") if (place / folder).is_dir()]
        for path in (*written, place / "packed-refs"):
            (git_dir / path.name).symlink_to(path)
        writes = (git_dir, *written, *([place] if deletes else []))
        yield replace(git, variables={"GIT_DIR": name}, reads=(*git.reads, git_dir), writes=writes)


def _list_references(
    git: Git, record: WorktreeRecord, excluded_prefixes: tuple[str, ...] = _NOT_COPIED
) -> dict[bytes, bytes]:
    """Return the references of a repository with their objects, without the branch of the worktree and those that
    begin with `excluded_prefixes`; by default those that a worktree shares with the project's repository."""
    references = _parse(git.run("for-each-ref", "--format=%(objectname) %(refname)"))
    mine = os.fsencode(f"refs/heads/{record.branch}")
    return {
        name: oid
        for name, oid in references.items()
        if name != mine and not os.fsdecode(name).startswith(excluded_prefixes)
    }


def _read_settings(git_dir: Path, name: str) -> bytes | None:
    """Return a small file of a repository; None for none, a link, or what is too large to be settings."""
    with suppress_errors((*REPLACED, errno.EFBIG)):
        return read_regular(git_dir / name, _MAX_SETTINGS)
    return None


def _parse(lines: bytes) -> dict[bytes, bytes]:
    """Return references with their objects from lines of `_format`, as git writes `packed-refs` too."""
    pairs = (line.partition(b" ") for line in lines.splitlines() if not line.startswith((b"#", b"^")))
    return {name: oid for oid, _, name in pairs}


def _format(references: dict[bytes, bytes]) -> bytes:
    return b"".join(b"%s %s\n" % (oid, name) for name, oid in references.items())


def _configuration(record: WorktreeRecord, git_dir: Path) -> bytes:
    """Return the configuration of the project's repository, changed to that of a repository with files of its own."""
    data = read_regular(record.repository / "config", _MAX_SETTINGS)
    data += b"\n" + (_read_settings(git_dir, "config.worktree") or b"")
    lower = data.lower()
    sections = "\n[core]\n\tbare = false\n"
    if b"worktree" in lower:
        folder = str(record.folder).replace("\\", "\\\\").replace('"', '\\"')
        sections += f'\tworktree = "{folder}"\n' if b"worktree =" in lower or b"worktree=" in lower else ""
        sections += "[extensions]\n\tworktreeConfig = false\n" if b"worktreeconfig" in lower else ""
    sections += "[extensions]\n\trefStorage = files\n" if b"refstorage" in lower else ""
    return data + sections.encode()
