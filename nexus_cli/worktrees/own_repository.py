"""The repository of a worktree: its own branch, index, references, stash and new objects.

It borrows the objects of the project's repository, which nothing in the worktree writes to. The commits of its branch
are published there: when a stay ends, and before the worktree is removed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from nexus_cli.config.worktree_record import WorktreeRecord
from nexus_cli.worktrees.git_commands import Git, GitError
from nexus_cli.worktrees.snapshot_store import quote_alternate

REFERENCES, PUBLISHED = "references", "published"
"""Files of a record folder: the references that the worktree got from the project's repository, and the commit of its
branch that was published last."""
OWN_REFERENCES = "refs/worktree/"
_NOT_COPIED = ("refs/stash", OWN_REFERENCES, "refs/bisect/", "refs/rewritten/")
_COPIED_FILES = ("shallow", "info/exclude", "info/attributes", "info/sparse-checkout")
_BRANCHES = 100
"""Most names that are tried for the branch."""


def hold_reference(record: WorktreeRecord) -> str:
    """Return the reference in the project's repository that keeps the first commit; created with the branch."""
    return f"{OWN_REFERENCES}nexus-{record.folder.parent.name}-{record.name}"


def create_branch(record: WorktreeRecord, git: Git) -> WorktreeRecord:
    """Create the branch of a worktree in the project's repository, and the reference that holds its first commit.

    `git` runs in that repository. The record is saved first: a killed process leaves nothing that is not known.
    Raises `GitError` and `OSError`.
    """
    plain = f"worktree-{record.name}"
    for branch in (plain, *(f"{plain}-{number}" for number in range(2, _BRANCHES))):
        record = replace(record, branch=branch)
        record.save()
        lines = f"create refs/heads/{branch} {record.start}\nupdate {hold_reference(record)} {record.start}\n"
        status, _, errors = git.try_run("update-ref", "--stdin", stdin=lines.encode())
        if status == 0:
            return record
        if not (b"exists" in errors and os.fsencode(branch) in errors):
            raise GitError(os.fsdecode(errors).strip().split("\n")[-1].removeprefix("fatal: "))
    raise GitError(f"too many branches begin with {plain}")


def create_repository(record: WorktreeRecord, git: Git, git_dir: Path, staged: Iterable[bytes]) -> None:
    """Create the repository of a worktree in its new folder, without files; `git_dir` is that of its source project.

    `staged` are index entries: their objects are copied, because a clean-up of the project's repository would delete
    those that are in no commit. Raises `GitError` and `OSError`.
    """
    own = record.folder / ".git"
    for name in ("objects/info", "objects/pack", "refs/heads", "info"):
        (own / name).mkdir(parents=True)
    for name in _COPIED_FILES:
        for place in (record.repository, git_dir):
            with suppress(FileNotFoundError):
                (own / name).write_bytes((place / name).read_bytes())
    if (record.repository / "hooks").is_dir():
        (own / "hooks").symlink_to(record.repository / "hooks")
    (own / "config").write_bytes(_configuration(record, git_dir))
    (own / "objects/info/alternates").write_bytes(os.fsencode(quote_alternate(record.repository / "objects")) + b"\n")
    references = _list_references(git, record)
    (own / "packed-refs").write_bytes(b"".join(b"%s %s\n" % (oid, name) for name, oid in references.items()))
    (record.home / REFERENCES).write_bytes(_format(references))
    (own / "refs/heads" / record.branch).write_text(f"{record.start}\n")
    (own / "HEAD").write_text(f"ref: refs/heads/{record.branch}\n")
    listed = git.run("ls-tree", "-r", "-z", record.start).split(b"\0")[:-1]
    of_head = {entry.partition(b"\t")[0].split(b" ")[2] for entry in listed}
    blobs = {entry.split(b" ", 2)[1] for entry in staged if not entry.startswith(b"160000")} - of_head
    if blobs:
        own_git = own_repository_git(record, git.program)
        own_git.run("pack-objects", "-q", str(own / "objects/pack/pack"), stdin=b"\n".join(sorted(blobs)) + b"\n")


def own_repository_git(record: WorktreeRecord, program: str) -> Git:
    """Return git in the repository of a worktree."""
    return Git(program, record.folder, {"GIT_DIR": str(record.folder / ".git"), "GIT_WORK_TREE": str(record.folder)})


def has_own_repository(record: WorktreeRecord) -> bool:
    """True unless the worktree is a linked one, of an earlier version, or its repository was deleted or replaced."""
    own = record.folder / ".git"
    return not own.is_symlink() and (own / "HEAD").is_file() and borrows_objects(own, record)


def borrows_objects(git_dir: Path, record: WorktreeRecord) -> bool:
    """True if a git folder borrows objects from the repository of the worktree's project alone."""
    try:
        return (git_dir / "objects/info/alternates").read_bytes() == os.fsencode(
            quote_alternate(record.repository / "objects")
        ) + b"\n"
    except OSError:
        return False


def publish_branch(record: WorktreeRecord, program: str) -> None:
    """Copy the commits of a worktree to the project's repository, and move the worktree's branch there.

    The branch stays where it is if somebody else moved, deleted or checked it out. Raises `GitError` and `OSError`.
    """
    if not has_own_repository(record):
        return
    own, main = own_repository_git(record, program), _repository(record, program)
    name = f"refs/heads/{record.branch}"
    tip = own.line("for-each-ref", "--format=%(objectname)", name)
    head = own.try_run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")[1].decode().strip()
    try:
        published = (record.home / PUBLISHED).read_text()
    except OSError:
        published = record.start
    new = {one for one in (tip, head) if one not in ("", record.start, published)}
    if new:
        objects = quote_alternate(record.folder / ".git/objects", always=True)
        lent = replace(main, variables={**main.variables, "GIT_ALTERNATE_OBJECT_DIRECTORIES": objects})
        wanted = "".join(f"{one}\n" for one in (*new, "--not", record.start))
        main.run(
            "index-pack", "--stdin", stdin=lent.run("pack-objects", "-q", "--revs", "--stdout", stdin=wanted.encode())
        )
    place = main.line("for-each-ref", "--format=%(objectname) %(worktreepath)", name)
    if tip and place == f"{published} ":
        main.run("update-ref", "-m", "nexus: work in the worktree", name, tip, published)
        (record.home / PUBLISHED).write_text(tip)


def refresh_references(record: WorktreeRecord, program: str) -> None:
    """Bring references that the project's repository has moved to the worktree, except those that the worktree moved.

    Raises `GitError` and `OSError`.
    """
    if not has_own_repository(record):
        return
    own = own_repository_git(record, program)
    before, now = read_references(record), _list_references(_repository(record, program), record)
    if before == now:
        return
    mine = _list_references(own, record)
    moved = [(name, oid) for name, oid in now.items() if mine.get(name) == before.get(name) != oid]
    own.try_run("update-ref", "--stdin", stdin=b"".join(b"update %s %s\n" % one for one in moved))
    (record.home / REFERENCES).write_bytes(_format(now))


def read_references(record: WorktreeRecord) -> dict[bytes, bytes]:
    """Return the references that a worktree got from the project's repository, with their objects."""
    with suppress(OSError):
        lines = (record.home / REFERENCES).read_bytes().splitlines()
        return {name: oid for oid, _, name in (line.partition(b" ") for line in lines)}
    return {}


def list_own_references(record: WorktreeRecord, program: str) -> list[str]:
    """Return the references that were created or moved in a worktree, its branch apart: branches, tags, the stash."""
    own, got = own_repository_git(record, program), read_references(record)
    found = (line.split(b" ", 1) for line in own.run("for-each-ref", "--format=%(objectname) %(refname)").splitlines())
    mine = f"refs/heads/{record.branch}".encode()
    return [
        os.fsdecode(name)
        for oid, name in found
        if got.get(name) != oid and name != mine and not name.startswith((b"refs/remotes/", b"refs/worktree/nexus-"))
    ]


def _repository(record: WorktreeRecord, program: str) -> Git:
    return Git(program, record.repository, {"GIT_DIR": str(record.repository)})


def _list_references(git: Git, record: WorktreeRecord) -> dict[bytes, bytes]:
    """Return the references that a worktree shares with the project's repository, with their objects."""
    listed = git.run("for-each-ref", "--format=%(objectname) %(refname)").splitlines()
    pairs = ((name, oid) for oid, _, name in (line.partition(b" ") for line in listed))
    mine = os.fsencode(f"refs/heads/{record.branch}")
    return {name: oid for name, oid in pairs if name != mine and not os.fsdecode(name).startswith(_NOT_COPIED)}


def _format(references: dict[bytes, bytes]) -> bytes:
    return b"".join(b"%s %s\n" % (oid, name) for name, oid in references.items())


def _configuration(record: WorktreeRecord, git_dir: Path) -> bytes:
    """Return the configuration of the project's repository, changed to that of a repository with files of its own."""
    data = (record.repository / "config").read_bytes()
    with suppress(FileNotFoundError):
        data += b"\n" + (git_dir / "config.worktree").read_bytes()
    lower = data.lower()
    more = "\n[core]\n\tbare = false\n"
    if b"worktree" in lower:
        folder = str(record.folder).replace("\\", "\\\\").replace('"', '\\"')
        more += f'\tworktree = "{folder}"\n' if b"worktree =" in lower or b"worktree=" in lower else ""
        more += "[extensions]\n\tworktreeConfig = false\n" if b"worktreeconfig" in lower else ""
    more += "[extensions]\n\trefStorage = files\n" if b"refstorage" in lower else ""
    return data + more.encode()
