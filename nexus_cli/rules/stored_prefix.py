"""The argument prefix that "always" stores for a command, where one can be offered."""

from __future__ import annotations

import re

from nexus_cli.rules.command_line import SimpleCommand
from nexus_cli.rules.wrappers import SHELLS, WRAPPERS, find_wrapper, system_name

NEVER = SHELLS | frozenset(
    """
    . source eval exec builtin alias trap export declare set unset cd pushd exit return read wait shift popd
    ulimit umask hash local readonly typeset ssh scp rsync curl wget nc ncat socat telnet ftp sftp node deno bun
    perl ruby php lua Rscript osascript tclsh ghci julia irb awk gawk mawk nawk sed find fd fdfind tee dd install
    ln make gmake ed vi vim nvim emacs nano less more man pager gdb lldb su runuser script rm rmdir shred truncate
    mkfs chmod chown kill pkill killall crontab at tar zip 7z cpio psql mysql sqlite3 ansible watch npx pnpx bunx
    uvx pipx screen tmux launchctl systemctl mount umount fish expect printf test [ [[
    """.split()
)
"""Programs whose further arguments can run anything, write anywhere or delete."""
SUBCOMMANDS = frozenset(
    """
    git npm pnpm yarn cargo go docker podman kubectl gh glab pip pip3 uv poetry pdm hatch rustup dotnet mvn gradle
    bundle gem composer mix rebar3 swift flutter dart terraform helm aws gcloud az brew apt apt-get dnf conda nix
    bazel buck cabal stack sbt lein zig deno bun turbo nx lerna django-admin alembic just task invoke tox nox
    pre-commit svn hg jj fly heroku vercel docker-compose nerdctl buildah gsutil rclone lxc adb apk yum zypper snap
    flatpak port choco scoop winget
    """.split()
)
"""Programs that mean nothing without a subcommand."""
_UNSAFE_SUBCOMMANDS = frozenset(
    {
        "git config",
        "git bisect",
        "git submodule",
        "git rebase",
        "git filter-branch",
        "git difftool",
        "git mergetool",
        "git grep",
        "git clone",
        "git remote",
        "git worktree",
        "npm exec",
        "npm x",
        "pnpm exec",
        "pnpm dlx",
        "yarn dlx",
        "yarn exec",
        "docker run",
        "docker exec",
        "podman run",
        "podman exec",
        "kubectl exec",
        "go generate",
        "go run",
        "bun x",
        "bun run",
        "uv run",
        "poetry run",
        "pdm run",
        "hatch run",
        "pipenv run",
        "bundle exec",
        "nix run",
        "nix develop",
        "nix shell",
        "npm config",
        "gh api",
        "gh alias",
        "gh extension",
        "helm plugin",
        "cargo install",
        "stack exec",
        "cabal exec",
        "mix run",
        "deno run",
        "deno eval",
        "conda run",
        "dotnet script",
    }
)
"""Subcommands that run or set what their further arguments say."""
_NESTED_SUBCOMMANDS = frozenset(
    {
        "npm run",
        "pnpm run",
        "yarn run",
        "docker compose",
        "go mod",
        "gh pr",
        "gh issue",
        "gh run",
        "gh repo",
        "git stash",
        "cargo nextest",
        "dotnet tool",
        "uv pip",
        "npm run-script",
        "podman compose",
        "bun run",
        "gh release",
    }
)
"""Subcommands that have subcommands of their own."""
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9:_-]*")
_PYTHON = re.compile(r"python(?:\d(?:\.\d+)?)?")
_MODULES = frozenset(
    """
    pytest unittest mypy ruff black isort flake8 pylint build pip compileall json.tool coverage tox nox venv
    py_compile pyright bandit doctest
    """.split()
)


def find_prefix(command: SimpleCommand) -> tuple[str, ...]:
    """Return program and subcommand, up to the first option or path; () where the rule would allow what nobody saw."""
    words = command.words
    if not words or command.assignments or not words[0].is_plain or find_wrapper(words)[0] is not None:
        return ()
    name = system_name(words[0])
    if not name or name in NEVER or name in WRAPPERS or name != words[0].text:
        return ()
    texts = [word.text if word.is_plain else "" for word in words]
    if _PYTHON.fullmatch(name):
        is_module = len(texts) > 2 and texts[1] == "-m" and texts[2] in _MODULES
        return (name, "-m", texts[2]) if is_module else ()
    if name not in SUBCOMMANDS:
        return (name,)
    if len(texts) < 2 or not _PLAIN.fullmatch(texts[1]) or " ".join(texts[:2]) in _UNSAFE_SUBCOMMANDS:
        return ()
    if " ".join(texts[:2]) not in _NESTED_SUBCOMMANDS:
        return (name, texts[1])
    return tuple(texts[:3]) if len(texts) > 2 and _PLAIN.fullmatch(texts[2]) else ()
