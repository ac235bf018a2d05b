"""Check that git in a project uses the repository there and runs no program named in it.

A positive list: a repository is plain if its configuration holds known keys alone, it is a folder at the root of the
project or a worktree that both sides know, no link in it leads elsewhere, and so are the repositories that its index
links to. All else asks.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nexus_cli.config.worktree_record import find_worktree, read_git_file, read_head
from nexus_cli.core.real_files import list_folder, open_folder, read_regular, scan_folder
from nexus_cli.core.surrogates import mask_unprintable
from nexus_cli.sandbox.git_files import UnsafeConfiguration, linked_repositories, object_length, read_settings
from nexus_cli.sandbox.profile import find_worktree_folder

MAX_CONFIGURATION = 1 << 20
MAX_INDEX = 256 << 20
DEEPEST = 4
"""Repositories within repositories."""
_SECTIONS = frozenset(
    """
    advice alias apply branch clone color column commit credential feature fetch gc gui http i18n index init
    maintenance pack pull push rebase rerere stash status tag user versionsort worktree
    """.split()
)
"""Sections in which no key makes a command that only reads run or read anything."""
_KEYS = frozenset(
    """
    blame.ignorerevsfile core.abbrev core.autocrlf core.bare core.bigfilethreshold core.checkstat core.commentchar
    core.compression core.eol core.filemode core.fscache core.fsmonitor core.hookspath core.ignorecase
    core.logallrefupdates core.longpaths core.pager core.precomposeunicode core.preloadindex core.protecthfs
    core.protectntfs core.quotepath core.repositoryformatversion core.safecrlf core.sharedrepository
    core.sparsecheckout core.sparsecheckoutcone core.sshcommand core.symlinks core.trustctime core.untrackedcache
    core.whitespace diff.algorithm diff.colormoved diff.context diff.ignoresubmodules diff.indentheuristic
    diff.interhunkcontext diff.mnemonicprefix diff.noprefix diff.renamelimit diff.renames diff.submodule diff.tool
    diff.wserrorhighlight extensions.noop extensions.objectformat extensions.partialclone
    extensions.preciousobjects extensions.refstorage extensions.relativeworktrees extensions.worktreeconfig
    gpg.format gpg.program lfs.access lfs.locksverify lfs.repositoryformatversion log.abbrevcommit log.date
    log.decorate log.follow log.showsignature merge.conflictstyle merge.ff merge.log merge.renamelimit
    merge.renames remote.fetch remote.followremotehead remote.gh-resolved remote.mirror remote.partialclonefilter
    remote.promisor remote.prune remote.prunetags remote.push remote.pushurl remote.skipdefaultupdate
    remote.skipfetchall remote.tagopt remote.url submodule.active submodule.branch
    submodule.fetchrecursesubmodules submodule.ignore submodule.recurse submodule.update submodule.url
    url.insteadof url.pushinsteadof
    """.split()
)
"""Further keys, without their subsection. Those that name a program are switched off by the environment of
read-only commands, or are for the network, which such a command has not."""


def check_repository(project: str) -> None:
    """Raise `UnsafeConfiguration` unless the repository at the real path `project` is safe, `OSError` if unreadable."""
    if any(test(os.path.join(project, "HEAD")) for test in (os.path.islink, os.path.isfile)):
        raise UnsafeConfiguration(f"{os.path.basename(project)} may be a bare repository")
    git = common = os.path.join(project, ".git")
    if os.path.islink(git):
        raise UnsafeConfiguration(".git is a link")
    if not os.path.isdir(git):
        folder = find_worktree_folder(Path(project))
        if folder is None:
            raise UnsafeConfiguration("the repository is outside the project, or does not list this worktree")
        git, common = str(folder), str(folder.parent.parent)
    if not read_head(Path(git)) or not all(os.path.isdir(os.path.join(common, name)) for name in ("objects", "refs")):
        raise UnsafeConfiguration(".git is not a repository; git may use another repository")
    _check_git_folder(git, common, project, 0)


def _check_git_folder(git: str, common: str, work: str, depth: int) -> None:
    """Check one repository, and those that its index links to below the folder `work`."""
    for folder in dict.fromkeys((git, common)):
        for name in ("config", "config.worktree"):
            with suppress(FileNotFoundError):
                _check_configuration(_read_small(os.path.join(folder, name)), git, work)
        for name in ("", "info", "objects", "objects/info", "objects/pack", "refs", "refs/heads"):
            _check_links(os.path.join(folder, name))
        if os.path.lexists(os.path.join(folder, "objects/info/alternates")) and not _is_of_worktree(folder):
            raise UnsafeConfiguration("the repository uses objects of another repository (objects/info/alternates)")
    if git == common and os.path.lexists(os.path.join(git, "commondir")):
        raise UnsafeConfiguration("the repository is outside the project")
    for linked in _linked_folders(git, common):
        nested = os.path.join(work, linked)
        if not os.path.lexists(os.path.join(nested, ".git")):
            continue
        if depth == DEEPEST or os.path.realpath(nested) != nested:
            raise UnsafeConfiguration(f"nexus does not check the repository in {os.path.basename(nested)}")
        _check_nested(nested, common, depth + 1)


def _is_of_worktree(git: str) -> bool:
    """Return True for the repository of a worktree of nexus that borrows objects from its project's alone."""
    record = find_worktree(Path(git))
    if record is None or git != str(record.folder / ".git"):
        return False
    lines = _read_small(os.path.join(git, "objects/info/alternates"))
    return lines == os.fsencode(f"{record.repository}/objects\n")


def _check_nested(nested: str, common: str, depth: int) -> None:
    git = os.path.join(nested, ".git")
    if os.path.islink(git):
        raise UnsafeConfiguration(f".git in {os.path.basename(nested)} is a link")
    if not os.path.isdir(git):
        git = str(read_git_file(Path(nested)))
        if not git.startswith(os.path.join(common, "modules", "")):
            raise UnsafeConfiguration(f"the repository of {os.path.basename(nested)} is outside the project")
    _check_git_folder(git, git, nested, depth)


def _check_links(folder: str) -> None:
    with (
        suppress(FileNotFoundError, NotADirectoryError),
        open_folder(folder) as opened,
        scan_folder(opened) as entries,
    ):
        for entry in entries:
            if entry.is_symlink() and entry.name != "hooks":
                raise UnsafeConfiguration(f"{entry.name} in the repository is a link")


def _check_configuration(data: bytes, git: str, work: str) -> None:
    """Raise `UnsafeConfiguration` if the configuration has a key off the list."""
    for section, key, value in read_settings(data):
        is_allowed = section in _SECTIONS or f"{section}.{key}" in _KEYS
        if f"{section}.{key}" == "core.worktree":  # a submodule's
            is_allowed = os.path.realpath(os.path.join(git, value)) == work
        elif f"{section}.{key}" == "blame.ignorerevsfile":
            is_allowed = not os.path.isabs(value) and os.path.realpath(os.path.join(work, value)).startswith(
                work + os.sep
            )
        if not is_allowed:
            problem = f"sets {mask_unprintable(f'{section}.{key}'[:60])}" if key else "has a line that git refuses"
            raise UnsafeConfiguration(f"the repository's configuration {problem}")


def _linked_folders(git: str, common: str) -> Iterator[str]:
    """Yield the paths in the index that are links to other repositories."""
    shared = [name for name in list_folder(git) if name.startswith("sharedindex.")]
    length = object_length(b"")
    try:
        with suppress(FileNotFoundError):
            length = object_length(_read_small(os.path.join(common, "config")))
        for name in ("index", *shared):
            with suppress(FileNotFoundError):
                yield from linked_repositories(_read(os.path.join(git, name), MAX_INDEX, "index"), length)
    except ValueError as error:
        raise UnsafeConfiguration("the index may link to other repositories") from error


def _read_small(path: str) -> bytes:
    return _read(path, MAX_CONFIGURATION, "configuration")


def _read(path: str, most: int, part: str) -> bytes:
    try:
        return read_regular(path, most)
    except OSError as error:
        if error.errno in (errno.EFBIG, errno.ELOOP, errno.ENOTDIR):
            why = "is too large to read" if error.errno == errno.EFBIG else "is a link"
            raise UnsafeConfiguration(f"the repository's {part} {why}") from error
        raise
