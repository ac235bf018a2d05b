"""Make a worktree: the repository's current commit, and the project's files as they are.

Files are copied, not checked out: the worktree has the project's staged, changed and new files, deletions, modes and
links. No program that a repository names is run. The project's index and files are only read.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from nexus_cli.config.foreign_items import KINDS, PARENT_PREFIX
from nexus_cli.config.paths import is_home_or_root, places, private_dir
from nexus_cli.config.project_environment import split_environments
from nexus_cli.config.project_settings import settings_in
from nexus_cli.config.protected_places import INSTRUCTION_FILES
from nexus_cli.config.trust import read_configuration
from nexus_cli.config.worktree_record import WorktreeRecord, find_worktree
from nexus_cli.core.clock import utc_now
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.real_files import (
    is_there,
    list_folder,
    open_folder,
    real_path,
    stat_at,
    suppress_errors,
    walk_below,
)
from nexus_cli.sandbox.own_git import Git, GitError, explain, failure
from nexus_cli.worktrees.carry_ignored import CARRIED, carry_files, copy_regular, find_needed, list_names
from nexus_cli.worktrees.own_repository import (
    create_branch,
    create_repository,
    find_git,
    is_closed,
    own_repository_git,
    repository_git,
)
from nexus_cli.worktrees.repository_state import find_open_work
from nexus_cli.worktrees.snapshot_store import SnapshotStore, split_present

SUBMODULE = b"160000"
STAGED = "staged"
"""File of a record folder with the index entries that were carried over."""


@dataclass(frozen=True, slots=True)
class SourceProject:
    """The project that a worktree is made of, as git sees it."""

    git: Git
    root: Path
    git_dir: Path
    repository: Path
    """The git folder that all worktrees share."""
    object_format: str
    head: str


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """The files of a work tree that are not ignored."""

    staged: tuple[bytes, ...]
    """The index entries as git lists them, submodules included."""
    sparse: tuple[bytes, ...]
    """Tracked files that are left out of the work tree on purpose."""
    tracked: tuple[bytes, ...]
    untracked: tuple[bytes, ...]
    """Files that are neither tracked nor ignored."""
    submodules: tuple[bytes, ...]
    nested: tuple[bytes, ...]
    """Nested repositories that are not submodules."""


def read_source(root: Path) -> SourceProject:
    """Return the project at `root`; raise `UsageError` if no worktree can be made from it."""
    root = real_path(root)
    if is_home_or_root(root):
        raise _refusal(f"{root} is your home folder or the root directory", "Run this in a project folder")
    if find_worktree(root) is not None and (root / ".git").is_dir() and not is_closed(root / ".git"):
        raise _refusal(f"the repository {root}/.git contains links to outside places", "Remove the links")
    git = Git(find_git(root), root)
    facts = "--is-bare-repository --is-inside-work-tree --show-object-format --git-common-dir --git-dir --show-toplevel"
    try:
        status, output, errors = git.try_run("rev-parse", *facts.split())
        lines = os.fsdecode(output).split("\n")
        if lines[1:2] == ["false"]:
            why = f"git has no working tree at {root} (a bare repository, a .git folder, or core.worktree elsewhere)"
            raise _refusal(why, "Change to the working tree, or to a clone")
        if status:
            if not errors or b"not a git repository" in errors:
                raise _refusal(f"{root} is not in a git repository", "Run `git init` and make a first commit")
            raise _refusal(explain("rev-parse", status, errors), "Run `git status` there")
        top = "\n".join(lines[5:]).strip("\n")
        head = git.head()
    except GitError as error:
        raise failure("no worktree", error) from error
    if os.path.realpath(top) != str(root):
        raise _refusal(
            f"{root} belongs to the repository {top}, which is not a project", "Run `git init` in the project"
        )
    common, git_dir = (real_path(root / path) for path in lines[3:5])
    if not head and is_there(common / "objects/info/alternates"):
        raise _refusal(
            "the repository uses objects of another repository, which nexus does not read",
            "Copy them: git repack -a && rm .git/objects/info/alternates",
        )
    if not head:
        raise _refusal("the current branch has no commit yet", 'Create a commit: git commit --allow-empty -m "Start"')
    if not (git.may_use(common) and git.may_use(git_dir)):
        raise _refusal(f"{root}/.git is a link to a place outside the project", "Remove the link")
    return SourceProject(git, root, git_dir, common, lines[2], head)


def list_files(git: Git) -> ProjectFiles:
    """Return the files of the work tree that `git` runs in. Raises `GitError`."""
    tagged = git.items("ls-files", "-s", "-t", "-z")
    staged = [entry[2:] for entry in tagged]
    entries = [entry.partition(b"\t")[::2] for entry in staged]
    if odd := next((path for _, path in entries if not {b"", b".", b".."}.isdisjoint(path.split(b"/"))), b""):
        # Git does not write such an index, but reads one that came with a downloaded folder.
        raise GitError(f"the index refers to a file outside the project: {os.fsdecode(odd)}")
    untracked = git.items(*_case_options(git.cwd), "ls-files", "-o", "--exclude-standard", "-z")
    return ProjectFiles(
        tuple(staged),
        tuple(entry.partition(b"\t")[2] for entry in tagged if entry.startswith(b"S ")),
        tuple(dict.fromkeys(path for head, path in entries if not head.startswith(SUBMODULE))),
        tuple(path for path in untracked if not path.endswith(b"/")),
        tuple(path for head, path in entries if head.startswith(SUBMODULE)),
        tuple(path.rstrip(b"/") for path in untracked if path.endswith(b"/")),
    )


def _case_options(root: Path) -> tuple[str, ...]:
    """Return options that make git tell `a` from `A` if the disk does, whatever a copied configuration says."""
    try:
        is_one = os.path.samefile(root / ".git", root / ".GIT")
    except OSError:
        is_one = False
    return () if is_one else ("-c", "core.ignorecase=false")


def fill_worktree(record: WorktreeRecord, source: SourceProject) -> tuple[WorktreeRecord, list[str]]:
    """Create the worktree of `record` in its existing record folder. Return the completed record and the notes for a
    person.

    Raises `GitError` and `OSError` with the worktree half made.
    """
    files = list_files(source.git)
    untracked, environments = split_environments(map(os.fsdecode, files.untracked))
    files = replace(files, untracked=tuple(map(os.fsencode, untracked)))
    main = repository_git(record)
    record = create_branch(record, main)
    record.folder.mkdir()
    create_repository(record, main, source.git_dir, files.staged)
    carried = _carried(source.root, files)
    copied = _copy_files(source.root, record.folder, carried)
    for path in map(os.fsdecode, files.submodules):
        if (source.root / path).is_dir():
            with suppress_errors(), open_folder(record.folder / path, create=True):
                pass
    (record.home / STAGED).write_bytes(b"".join(entry + b"\0" for entry in files.staged))
    _write_index(record, files)
    objects = source.repository / "objects"
    store = SnapshotStore.create(source.git.program, record.store, record.folder, objects, source.object_format)
    base = store.save_base(copied)
    store.hold(base, record.start)
    notices = _carry_ignored(record, source, environments)
    record = replace(record, base=base, applied=base, created=utc_now())
    record.save()
    return record, [*notices, *_describe_left_out(source, files)]


def _write_index(record: WorktreeRecord, files: ProjectFiles) -> None:
    """Write the index of a new worktree. Git makes it in a folder that has nothing else."""
    with tempfile.TemporaryDirectory(prefix="index-", dir=record.home) as name:
        index = Path(name, "index")
        git = own_repository_git(record)
        git = replace(git, variables={**git.variables, "GIT_INDEX_FILE": str(index)}, writes=(index.parent,))
        git.items("update-index", "-z", "--index-info", inputs=files.staged)
        if files.sparse:
            git.items("update-index", "--skip-worktree", "-z", "--stdin", inputs=files.sparse)
        # Exits with an error if a file differs from the index.
        git.try_run(*git.without_filters(), "update-index", "-q", "--refresh")
        if index.is_file() and not index.is_symlink():
            os.replace(index, record.folder / ".git/index")


def _carried(root: Path, files: ProjectFiles) -> Iterable[bytes]:
    """Return the paths to copy: those of git, instructions and settings, without nexus's own folders."""
    carried = {*files.tracked, *files.untracked, *_instructions(root)}
    own_folders = _list_nexus_folders(root)
    return [path for path in carried if not path.startswith(own_folders)]


def _list_nexus_folders(root: Path) -> tuple[bytes, ...]:
    """Return nexus's own folders below `root`, relative to it, with a slash at the end."""
    folders = places()
    hidden = [os.path.realpath(path) + os.sep for path in (folders.config, folders.data, folders.cache, folders.log)]
    return tuple(
        os.fsencode(path.removeprefix(f"{root}{os.sep}")) for path in hidden if path.startswith(f"{root}{os.sep}")
    )


def _instructions(root: Path) -> Iterator[bytes]:
    yield from list_below(root, b".nexus")
    with suppress(OSError):
        yield from (os.fsencode(name) for name in list_folder(root) if name.casefold() in INSTRUCTION_FILES)


def list_below(root: Path, folder: bytes) -> Iterator[bytes]:
    """Yield the paths, relative to `root`, of the files and links below a folder, none if it cannot be opened."""
    with suppress(OSError), open_folder(root / os.fsdecode(folder)) as opened:
        for path, entry in walk_below(opened):
            if not entry.is_dir(follow_symlinks=False):
                yield folder + b"/" + os.fsencode(path)


def _copy_files(source: Path, target: Path, paths: Iterable[bytes]) -> list[bytes]:
    """Copy files and links with their modes and times; return the paths that existed.

    No link is followed: a command that runs in the project may replace a folder with one meanwhile.
    """
    present, _ = split_present(source, paths)
    copied = []
    for folder, paths_there in groupby(present, lambda path: os.fsdecode(path).rpartition("/")[0]):
        with (
            suppress_errors(),
            open_folder(target / folder, create=True) as into,
            open_folder(source / folder) as source_folder,
        ):
            for path in paths_there:
                with suppress_errors():
                    _copy_file(source_folder, os.fsdecode(path).rpartition("/")[2], into)
                    copied.append(path)
    return copied


def _copy_file(folder: int, name: str, target: int) -> None:
    if stat.S_ISLNK(stat_at(folder, name).st_mode):
        os.symlink(os.readlink(name, dir_fd=folder), name, dir_fd=target)
    else:
        copy_regular(folder, name, target)


def _carry_ignored(record: WorktreeRecord, source: SourceProject, environments: Sequence[str]) -> tuple[str, ...]:
    """Copy `environments` and the ignored files that the settings name; return lines for the person and the model."""
    settings = settings_in(source.root).worktree
    if not settings.include_mb:
        return ()
    needed = find_needed(source.git, source.root, record.home / "include", settings.include)
    own_folders, files = _list_nexus_folders(source.root), read_configuration(source.root, KINDS).files
    beside = (
        name.removeprefix(PARENT_PREFIX) for name in files if name.startswith(PARENT_PREFIX)
    )  # git may ignore them
    paths = [path for path in (*environments, *needed, *beside) if not os.fsencode(path).startswith(own_folders)]
    carried = carry_files(source.root, record.folder, paths, settings.include_mb * 1_000_000)
    (record.home / CARRIED).write_text(json.dumps(carried.stamps))
    return carried.notices


def _describe_left_out(source: SourceProject, files: ProjectFiles) -> list[str]:
    """Return lines for a person about the parts of the project that its worktree lacks."""
    lines = []
    if files.submodules:
        lines.append(f"submodules are empty in the worktree: {list_names([*map(os.fsdecode, files.submodules)])}")
    if files.nested:
        nested = list_names([*map(os.fsdecode, files.nested)])
        lines.append(f"repositories inside the project are not copied: {nested}")
    if work := find_open_work(source.git_dir):
        lines.append(f"a {work} is in progress in the project: the worktree gets the current files, but not the {work}")
    return lines


def prepare_record(folder: Path, name: str, source: SourceProject) -> WorktreeRecord:
    """Create the record folder of a new worktree in `folder`. Raises `OSError`."""
    record = WorktreeRecord(name, folder / name, source.root, source.repository, "", source.head)
    private_dir(record.home)
    record.save()
    return record


def _refusal(why: str, hint: str) -> NexusError:
    return UsageError("no worktree", why, hint)
