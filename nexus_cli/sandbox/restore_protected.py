"""Compare a project with its snapshot: restore changed protected places, remove new ones, and report both.

Only folders that existed before are guarded, by path. A folder that the command created, moved or copied is not, so
that `git clone`, `git worktree add` and `npm create` work. Places that were removed together with their folder are not
restored: they cannot do harm. Hooks and configurations in new repositories stay and are reported.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice

from nexus_cli.config.paths import is_below
from nexus_cli.config.protected_places import GIT_FOLDER
from nexus_cli.sandbox.git_files import is_safe_configuration, runs_programs
from nexus_cli.sandbox.guarded_places import (
    MAX_CONFIGURATION,
    MAX_FOLDERS,
    MOST_DEPTH,
    GuardedFolder,
    look_again,
    look_at,
    read_git_file,
)
from nexus_cli.sandbox.profile import has_above
from nexus_cli.sandbox.protected_snapshot import ProtectedSnapshot, SavedNode, find_places, read_links
from nexus_cli.sandbox.write_denied_paths import find_matches, list_with_parents, place_of
from nexus_cli.tree.real_tree import RealTree

REPOSITORY = "new repository: git runs programs from its configuration and hooks"
REBASE = "`git rebase --continue` would run the programs of its exec lines; read them first"
REPOSITORY_GONE = (
    "no longer exists; nexus undo restores a deleted repository, but not a repository that was moved elsewhere"
)
UNREAD = "cannot be read: linked repositories were not checked"
_MAX_SEARCHED = 100_000
"""Most files and folders that are searched for a git folder that was moved."""
_TODO = "rebase-merge/git-rebase-todo"
_TICK = 20_000_000
"""Nanoseconds by which a file's timestamp may lag behind the clock."""


@dataclass(frozen=True, slots=True)
class RestoredPath:
    """A protected path that a command changed, or about which the person needs a warning."""

    path: str
    outcome: str
    """`restored`, `removed`, `changed` if it could not be restored, or a warning."""
    left_files: Mapping[str, bytes]
    """The files that the command had left there, by path."""

    def describe(self, project: str, rule: str) -> str:
        """Return the line about it for the person, with the deny rule that keeps it."""
        return f"{self.path.removeprefix(f'{project}/')}: {self.outcome}{f' (deny {rule})' if rule else ''}"


class NotCompared(OSError):
    """A part of the project could not be compared; `handled` has the paths that were restored or reported."""

    def __init__(self, why: str, restored: list[RestoredPath]) -> None:
        super().__init__(errno.EIO, why)
        self.handled = restored


def restore_protected(before: ProtectedSnapshot, since: int) -> list[RestoredPath]:
    """Compare the project with `before` and restore it; return the paths concerned, unrestored ones first.

    `since` is the start of the command, in nanoseconds since the epoch. Raises `NotCompared` if a path could not be
    read, or not be restored (disk full, out of memory): the comparison must then be repeated.
    """
    with closing(RealTree(before.roots)) as tree:
        for root, place in before.roots.items():
            status = tree.stat(root)
            # Device numbers may change at a reboot.
            if status is not None and status.st_ino != place[1]:
                tree.leave(root)  # a new folder by that name: the snapshot does not apply to it
        comparison = _Comparison(tree, before, since)
        try:
            comparison.run()
        except Exception as error:  # whatever failed, the project was not fully compared
            comparison.failed.append(error)
    restored_paths = sorted(
        comparison.reported, key=lambda restored_path: restored_path.outcome in ("restored", "removed")
    )
    if comparison.failed:
        raise NotCompared(str(comparison.failed[0]), restored_paths)
    return restored_paths


class _Comparison:
    """One comparison: the paths to report, and the errors."""

    def __init__(self, tree: RealTree, before: ProtectedSnapshot, since: int) -> None:
        self.reported: list[RestoredPath] = []
        self.failed: list[Exception] = []
        self._tree, self._before, self._since = tree, before, since
        self._now: dict[str, SavedNode] = {}
        self._gits = dict(before.gits)
        self._fresh: tuple[str, ...] = ()
        """Path prefixes of new repositories: in these only hooks and non-plain configuration are removed."""

    def run(self) -> None:
        tree = self._tree
        for git in self._before.places:
            self._attempt(git, self._return_moved)
        for path in self._before.mounted:
            self._attempt(path, self._move_back)
        before = self._before = self._with_new_matches()
        folders = self._open_folders()
        new = (path for path, folder in folders.items() if folder.has_git and path not in self._gits)
        for paths in (new, self._find_new_links()):
            self._gits |= {path: f"{path}/{GIT_FOLDER}" for path in paths}
        known_gits = set(before.gits.values())
        self._fresh = tuple(f"{git}/modules/" if git in known_gits else f"{git}/" for git in self._gits.values())
        self._now, partial = before.look(tree, folders, self._gits.values(), before.nodes)
        for root in partial.keys() - before.partial.keys():  # exceeds the limit only now
            below = (node for path, node in before.nodes.items() if path.startswith(f"{root}/"))
            if any(node.content is None and node.kind == stat.S_IFREG for node in below):
                self._report(root, "changed")  # a file in it is too large to be restored
            else:
                self._attempt(root, self._remove_and_report)
        for path in [path for path in self._now if path not in before.nodes]:
            if not path.startswith(tuple(f"{root}/" for root in before.partial)):
                self._attempt(path, self._check_new_path)
        for path in before.nodes:
            self._attempt(path, self._restore)
        tree.forget()
        self._report_new_repositories(folders)
        for git in self._gits.values():
            status = tree.stat(f"{git}/{_TODO}")
            is_new = status is not None and status.st_ctime_ns > self._since - _TICK
            if is_new and runs_programs(tree.read(f"{git}/{_TODO}", MAX_CONFIGURATION) or b""):
                self._report(f"{git}/{_TODO}", REBASE)

    def _report(self, path: str, outcome: str, left_files: Mapping[str, bytes] | None = None) -> None:
        self.reported.append(RestoredPath(path, outcome, left_files or {}))

    def _attempt(self, path: str, act: Callable[[str], None]) -> None:
        """Call `act` on a path; report a `PermissionError` as `changed`, and note any other `OSError` as a failure."""
        try:
            act(path)
        except PermissionError:
            self._report(path, "changed")
        except OSError as error:
            self.failed.append(error)

    def _return_moved(self, git: str) -> None:
        """Move a git folder that the command moved within the project back, and a folder in its place to where it was;
        it is guarded there. If its work tree was moved with it, restore it where it is."""
        tree, status = self._tree, self._tree.stat(git)
        moved = self._find_moved(git, self._before.places[git])
        module_folders = tuple(f"{other_git}/modules/" for other_git in self._before.gits.values() if other_git != git)
        is_absorbed = (
            moved.startswith(module_folders) and read_git_file(tree, git) == moved
        )  # `git submodule absorbgitdirs`
        # A file system gives the inode of a removed folder to the next new one: a git folder has a `HEAD` besides.
        is_git = tree.is_folder(moved) and tree.stat(f"{moved}/HEAD") is not None
        if not is_git or is_absorbed:
            return
        if status is not None and not stat.S_ISDIR(status.st_mode):
            self._remove_and_report(git)
        work_tree, aside = git.rpartition("/")[0], f"{git}-{secrets.token_hex(4)}"
        was, now = self._before.folders.get(work_tree), tree.stat(work_tree)
        if was is not None and now is not None and was.stamp[1] == now.st_ino and not moved.startswith(f"{git}/"):
            tree.set_folder_mode(moved, stat.S_IRWXU)
            tree.move(moved, aside)
            if tree.is_folder(git):
                tree.set_folder_mode(git, stat.S_IRWXU)
                tree.move(git, moved)
                self._gits[moved] = moved
            tree.move(aside, git)
            self._report(git, f"restored from {moved}{', where its replacement is now' * tree.is_folder(moved)}")
            return
        self._report(git, f"was moved to {moved}")
        nodes = ((path, node) for path, node in self._before.nodes.items() if is_below(path, git))
        moved_nodes = {f"{moved}{path.removeprefix(git)}": node for path, node in nodes}
        moved_snapshot = ProtectedSnapshot(
            self._before.project, self._before.roots, nodes=moved_nodes, gits={moved: moved}
        )
        inner = _Comparison(tree, moved_snapshot, self._since)
        inner.run()
        self.reported += inner.reported
        self.failed += inner.failed

    def _move_back(self, path: str) -> None:
        """Move a path back that a deny rule keeps and that the command moved with the folders around it."""
        tree, place = self._tree, self._before.mounted[path]
        moved = self._find_moved(path, place[:2])
        status = tree.stat(moved)
        if status is None or place_of(status) != place:  # git or an editor of the person has replaced it
            return
        self._remove_and_report(path)
        for folder, _ in list_with_parents(self._before.project, [path]):
            if folder != path and tree.stat(folder) is None:
                tree.put(folder, stat.S_IFDIR | 0o755, b"", (os.getuid(), os.getgid()))
        tree.move(moved, path)
        self._report(path, f"restored from {moved}")

    def _with_new_matches(self) -> ProtectedSnapshot:
        """Return the snapshot that also names what a pattern of a deny rule names now and did not before."""
        before = self._before
        matches, _ = find_matches(self._tree, before.project, before.write_denied_patterns)
        known_paths = {*before.mounted, *before.write_denied_paths}
        new = [path for path in matches if not has_above(path, known_paths)]
        return (
            replace(before, named_places=(*before.named_places, *list_with_parents(before.project, new)))
            if new
            else before
        )

    def _find_moved(self, path: str, place: tuple[int, int]) -> str:
        """Return the new path, below the roots, of what was at `path` with this device and inode; "" if it is still
        there, or is not found."""
        status = self._tree.stat(path)
        if status is not None and status.st_ino == place[1]:
            return ""
        paths = (path for root in self._before.roots for path in islice(self._tree.walk(root), _MAX_SEARCHED))
        return next((path for path in paths if find_places(self._tree, [path]).get(path) == place), "")

    def _open_folders(self) -> dict[str, GuardedFolder]:
        """Return the current guarded folders, after restoring the modes that the command changed.

        A folder that cannot be listed or written cannot be restored. A link in place of a folder with protected names
        is removed: it may lead to other files by the same names.
        """
        tree, before = self._tree, self._before
        for _ in range(MOST_DEPTH + 2):
            folders = look_again(tree, before.folders)
            closed = [path for path, now in folders.items() if before.folders[path].mode & ~now.mode & stat.S_IRWXU]
            for path in closed:
                self._attempt(path, lambda path: tree.set_folder_mode(path, before.folders[path].mode))
            if not closed:
                break
        for path, node in before.nodes.items():
            status = tree.stat(path) if node.kind == stat.S_IFDIR else None
            if status is None:
                continue
            if node.passage and stat.S_ISLNK(status.st_mode):
                self._attempt(path, self._remove_and_report)
            elif stat.S_ISDIR(status.st_mode) and status.st_mode != node.mode:
                self._attempt(path, lambda path: tree.set_folder_mode(path, before.nodes[path].mode))
        return folders

    def _find_new_links(self) -> Iterator[str]:
        """Yield the work trees that an index links to and whose repository is new: git would obey its configuration."""
        for folder, git in self._gits.items():
            mark, now = read_links(self._tree, git, self._before)
            if now is None and mark != self._before.indexes.get(git):
                self._report(f"{git}/index", UNREAD)
            for path in (f"{folder}/{name}" for name in now or ()):
                if path not in self._gits and self._tree.stat(f"{path}/{GIT_FOLDER}") is not None:
                    yield path

    def _check_new_path(self, path: str) -> None:
        """Remove a new path in a protected place, unless git creates such a file and obeys nothing in it."""
        node, (folder, _, name) = self._now.get(path), path.rpartition("/")
        if node is None:
            return
        if node.passage:
            stays = not folder.endswith("/worktrees") or self._is_new_worktree(path)
        elif folder not in self._before.nodes and self._is_new_worktree(folder):
            stays = True
        elif path.startswith(self._fresh):
            stays = node.kind == stat.S_IFDIR or name.endswith(".sample") or self._is_plain(path)
        else:
            stays = name == GIT_FOLDER and self._is_of_git(read_git_file(self._tree, path))
            stays = stays or (path.endswith("/info/exclude") and self._is_plain(path))
        if not stays:
            self._remove_and_report(path)

    def _is_plain(self, path: str) -> bool:
        """Return True for a configuration that runs nothing, and for a list of ignored files that has only comments."""
        content = self._tree.read(path, MAX_CONFIGURATION) if path.endswith(("/config", "/info/exclude")) else None
        if content is None or path.endswith("/config"):
            return content is not None and is_safe_configuration(content, of_submodule="/modules/" in path)
        return all(line[:1] in (b"", b"#") for line in content.splitlines())

    def _is_of_git(self, path: str) -> bool:
        """Return True for a guarded git folder: of a repository of the project, or of its submodule or worktree."""
        node, gits = self._now.get(path), self._gits.values()
        repository, _, entry = path.rpartition("/worktrees/")
        is_worktree = repository in gits and "/" not in entry
        is_known = is_worktree or path in gits or path.startswith(tuple(f"{git}/modules/" for git in gits))
        return node is not None and node.passage and is_known

    def _is_new_worktree(self, entry: str) -> bool:
        """Return True for an entry that `git worktree add` made: it has no configuration of its own."""
        if entry.rpartition("/worktrees/")[0] not in self._gits.values():
            return False
        place = self._tree.read(f"{entry}/gitdir", MAX_CONFIGURATION) or b""
        is_part = self._tree.read(f"{entry}/commondir", MAX_CONFIGURATION) == b"../..\n"
        is_place = place.endswith(b"/.git\n") and place.count(b"\n") == 1
        return is_part and is_place and self._tree.stat(f"{entry}/config.worktree") is None

    def _remove_and_report(self, path: str) -> None:
        """Remove `path` and report it; do nothing if it does not exist."""
        if self._tree.stat(path) is not None:
            left_files = self._read_files(path)
            self._tree.remove(path)
            self._now = {place: node for place, node in self._now.items() if not is_below(place, path)}
            self._report(path, "removed", left_files)

    def _read_files(self, path: str) -> dict[str, bytes]:
        """Return the content of files at and below `path`, as far as it was read."""
        nodes = ((place, node) for place, node in self._now.items() if is_below(place, path))
        return {place: node.content for place, node in nodes if node.content is not None and node.kind == stat.S_IFREG}

    def _restore(self, path: str) -> None:
        tree, node, now = self._tree, self._before.nodes[path], self._now.get(path)
        folder, _, name = path.rpartition("/")
        if node.passage:
            if now is None:
                if self._leads_to_kept(path):
                    tree.put(path, node.mode, b"", node.owner)
                if self._gits.get(folder) == path and tree.is_folder(folder):
                    self._report(path, REPOSITORY_GONE)
            # `git submodule absorbgitdirs` leaves a file that names a known folder.
            elif now.kind != stat.S_IFDIR and name == GIT_FOLDER and not self._is_of_git(read_git_file(tree, path)):
                self._remove_and_report(path)
            return
        if not tree.is_folder(folder) or (now is not None and now.is_like(node)):
            return
        left_files = self._read_files(path)
        if node.content is None and node.kind != stat.S_IFDIR:
            self._report(path, "changed", left_files)
            return
        if now is not None and stat.S_IFDIR in (now.kind, node.kind):
            tree.remove(path)
        tree.put(path, node.mode, node.content or b"", node.owner)
        self._report(path, "restored", left_files)

    def _leads_to_kept(self, path: str) -> bool:
        """Return True for a folder on the way to what a deny rule keeps and was there: it is brought back."""
        before = self._before
        return any(
            kept_path in before.nodes and kept_path.startswith(f"{path}/") for kept_path in before.write_denied_paths
        )

    def _report_new_repositories(self, folders: Mapping[str, GuardedFolder]) -> None:
        """Report repositories in new folders whose configuration or hooks run programs."""
        before = self._before.folders
        new = ((path, set(now.folders).difference(before[path].folders)) for path, now in folders.items())
        waiting = [f"{path}/{name}" for path, names in new for name in sorted(names)]
        for path in islice(waiting, MAX_FOLDERS):  # it grows
            if (folder := look_at(self._tree, path)) is not None:
                git = path if folder.is_bare else f"{path}/{GIT_FOLDER}" if folder.has_git else ""
                if git and path not in self._gits and self._runs_programs(git):
                    self._report(path, REPOSITORY)
                waiting += [f"{path}/{name}" for name in folder.folders]

    def _runs_programs(self, git: str) -> bool:
        """Return True if git may run programs of an unguarded repository: it has hooks or a non-plain configuration."""
        tree = self._tree
        git = git if tree.is_folder(git) else read_git_file(tree, git)
        if self._is_of_git(git):
            return False
        hooks = any(not name.endswith(".sample") for name, _ in tree.scan(f"{git}/hooks"))
        is_safe_configuration = tree.stat(f"{git}/config") is None or self._is_plain(f"{git}/config")
        return (
            hooks or not is_safe_configuration or not tree.is_folder(git) or tree.stat(f"{git}/commondir") is not None
        )
