"""Open the source of a plugin: a folder, a commit of a git repository, or a plugin of a marketplace in one of these.

A branch or tag is resolved to its commit when the plugin is added or updated; nothing follows it by itself.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from nexus_cli.config.programs import GIT_OPTIONS, find_program, git_environment, run_program
from nexus_cli.core.elide import one_line
from nexus_cli.core.errors import NexusError, UsageError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.real_files import real_path
from nexus_cli.plugins.installed_plugins import PluginSource
from nexus_cli.plugins.marketplace import COMMIT, MarketPlugin, find_market, find_market_plugin, github_address
from nexus_cli.plugins.plugin_folder import MANIFESTS

SECONDS = 300.0
"""Time limit of one command of git."""
_REMOTE = r"(?:[a-z][a-z+.-]*://[^/]*/|[\w.-]+@[\w.-]+:)"
_SOURCE = re.compile(rf"(?P<place>{_REMOTE}?[^@:]+)(?:@(?P<ref>[^@:]+))?(?::(?P<inner>.+))?", re.DOTALL)
_SHORT = re.compile(r"[A-Za-z0-9][\w-]*/[\w.-]+")
"""`OWNER/REPO` of GitHub."""
_PLUGIN_AT_MARKET = re.compile(r"(?P<plugin>[A-Za-z0-9][\w-]*)@(?P<market>[A-Za-z0-9][\w.-]*)")
_FETCHED = ("refs/fetched/heads", "refs/fetched/tags")
_BRANCHES = ("+refs/heads/*:refs/fetched/heads/*", "+refs/tags/*:refs/fetched/tags/*")
_WARNING = re.compile(r"\W*warning:", re.IGNORECASE)
"""A line of git or ssh that is not the reason of a failure."""
_HINT = "A source is PATH, OWNER/REPO[:PLUGIN], REPOSITORY[@REF][:FOLDER] or PLUGIN@MARKETPLACE"


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """The folder of a plugin, while it is open."""

    folder: Path
    source: PluginSource
    """The source with its commit, to be kept."""
    manifest: JsonObject | None = None
    """What a marketplace says of the plugin."""


def parse_source(text: str, cwd: Path) -> PluginSource:
    """Return the source that a person names, see `_HINT`; raise `UsageError` if it cannot be one."""
    path = os.path.abspath(cwd / os.path.expanduser(text))
    if os.path.exists(path):
        return PluginSource(path)
    if (reference := _PLUGIN_AT_MARKET.fullmatch(text)) and not os.path.exists(cwd / reference["plugin"]):
        market = find_market(reference["market"], cwd)
        if market is None:
            hint = f"Specify its repository: nexus plugin add OWNER/REPO:{reference['plugin']}"
            raise UsageError(one_line(text), "nexus does not know this marketplace", hint)
        return replace(market, inner=reference["plugin"])
    match = _SOURCE.fullmatch(text)
    if match is None or match["place"].startswith("-"):
        raise UsageError(one_line(text), "not a folder or repository", _HINT)
    place, ref = match["place"], match["ref"] or ""
    inner = os.path.normpath(match["inner"] or ".")
    if inner.startswith(("/", "..")) or ref.startswith("-"):
        raise UsageError(one_line(text), "not a folder in a repository", _HINT)
    local = os.path.abspath(cwd / os.path.expanduser(place))
    inner = "" if inner == "." else inner
    if os.path.exists(local):
        place = local
    elif _SHORT.fullmatch(place):
        place = github_address(place)
    elif not re.match(_REMOTE, place):
        return PluginSource(local, inner=inner)
    commit = ref if COMMIT.fullmatch(ref) else ""
    is_folder = place == local and not ref
    return PluginSource(place, commit, inner, "" if commit or is_folder else ref or "HEAD")


@contextmanager
def open_source(source: PluginSource) -> Iterator[OpenedSource]:
    """Yield the folder of a source, fetched if it is a repository; raise `NexusError` if it cannot be had."""
    with ExitStack() as stack:
        root, pinned = _open_root(source, stack)
        inner = root / source.inner
        has_own = any((inner / name).is_file() for name in MANIFESTS)
        plugin = find_market_plugin(root, source.inner, is_folder=has_own)
        if plugin is None:
            if not inner.is_dir():
                why = f"the source has no folder {one_line(source.inner)}"
                raise UsageError(one_line(pinned.text), why, _HINT)
            yield OpenedSource(inner, pinned)
        else:
            yield _open_listed(plugin, root, pinned, stack)


def _open_listed(market_plugin: MarketPlugin, root: Path, market: PluginSource, stack: ExitStack) -> OpenedSource:
    """Return the folder of a plugin that a marketplace names."""
    pinned = market
    if market_plugin.source.place:
        root, pinned = _open_root(market_plugin.source, stack)
    folder = root / market_plugin.source.inner
    if not folder.resolve().is_relative_to(root.resolve()) or not folder.is_dir():
        why = f"the plugin's source in the marketplace has no folder {one_line(market_plugin.source.inner)}"
        raise NexusError("config", one_line(market.text), why, _HINT)
    return OpenedSource(folder, pinned, market_plugin.manifest)


def _open_root(source: PluginSource, stack: ExitStack) -> tuple[Path, PluginSource]:
    """Return the folder of a source without its inner part, and the source with the commit that was fetched."""
    if not (source.commit or source.ref):
        if not os.path.isdir(source.place):
            raise UsageError(one_line(source.place), "there is no such folder", _HINT)
        return Path(source.place), source
    folder = real_path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nexus-plugin-")))
    return folder, _fetch(source, folder)


def _fetch(source: PluginSource, folder: Path) -> PluginSource:
    """Check out a commit in `folder`, and return the source with it. Servers that give no single commits are asked for
    all branches. A commit that was named must be on one: a server gives those of forks and of deleted branches too."""
    git = find_program("git")
    if git is None:
        raise NexusError("config", one_line(source.text), "git was not found", "Install git")
    env = {**git_environment(Path.cwd()), "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh"}
    options = [word if word != "protocol.allow=never" else "protocol.allow=user" for word in GIT_OPTIONS]

    output = b""

    def run(*arguments: str) -> str:
        nonlocal output
        try:
            result = run_program([git, *options, *arguments], env=env, cwd=folder, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return f"git took longer than {SECONDS:.0f} s"
        output, lines = result.stdout, os.fsdecode(result.stderr).strip().splitlines()
        reasons = (one_line(line) for line in lines if line.strip() and not _WARNING.match(line))
        return next(reasons, "git failed") if result.returncode else ""

    why, is_named = run("init", "-q", "--template="), bool(source.commit)
    if not (why or is_named):
        why = run("ls-remote", "--", source.place, source.ref, f"{source.ref}^{{}}")
        commit = _find_commit(os.fsdecode(output), source.ref)
        if not (why or commit):
            missing = f"the repository has no branch or tag {one_line(source.ref)}"
            raise UsageError(one_line(source.place), missing, "Specify a branch, a tag or a full commit hash")
        source = replace(source, commit=commit, ref="")
    is_known = not why
    why = why or run("fetch", "-q", "--no-tags", "--depth=1", "--", source.place, source.commit)
    if why and is_known:
        why = run("fetch", "-q", "--", source.place, "+refs/*:refs/fetched/*")
    why = why or run("-c", "core.autocrlf=false", "checkout", "-q", "--detach", source.commit)
    why = why or run("rev-parse", "--verify", "HEAD")
    if not why and os.fsdecode(output).strip() != source.commit:  # a tag or branch can have the name of a commit
        why = "the repository has no commit with this hash"
    if is_named and not why:  # the history alone
        why = run("fetch", "-q", "--no-tags", "--filter=tree:0", "--", source.place, *_BRANCHES)
        why = why or run("for-each-ref", "--count=1", "--contains", source.commit, *_FETCHED)
        if not (why or output):
            hint = "Specify a commit of a branch, or clone the repository and add its folder"
            raise NexusError(
                "config", one_line(source.text), "the commit is not on any branch or tag of the repository", hint
            )
    if why:
        raise NexusError("network", one_line(source.text), why, "Check the repository and the commit")
    return source


def _find_commit(listed: str, ref: str) -> str:
    """Return the commit of a tag or branch in the output of `git ls-remote`, "" if it is not there."""
    rows = {name: commit for commit, _, name in (line.partition("\t") for line in listed.splitlines())}
    names = (ref, f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", f"refs/heads/{ref}")
    return next((rows[name] for name in names if COMMIT.fullmatch(rows.get(name, ""))), "")
