"""List the places that a call may not read, and those that it may not write without approval. The only such list.

Credentials are below the home folder or in nexus's own folders. Files that other programs run or obey when they open a
project (git, editors, shells, agents) are recognized by name, in any folder.
"""

from __future__ import annotations

import os
import pwd
import unicodedata
from collections.abc import Collection, Iterable
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from nexus_cli.config.paths import Places, is_below
from nexus_cli.config.worktree_record import find_worktree
from nexus_cli.core.real_files import read_beginning, real_path
from nexus_cli.core.shared_types import Environ, Paths

_KEYS = (
    *"""
    .ssh .gnupg .pki .age .config/age .config/sops .config/op .op .password-store .local/share/pass
    .config/keepassxc .config/Bitwarden .config/1Password .local/share/keyrings .local/share/kwalletd
    .kde/share/apps/kwallet .local/share/python_keyring .vault-token .krb5 .Xauthority .ICEauthority
    Library/Keychains .1password .config/rbw .local/share/rbw .config/Enpass .local/share/Enpass .lpass
    .config/lpass .local/share/lpass .config/gopass .local/share/gopass .keybase .config/keybase
    .local/share/keybase .step .tsh .minisign .signify .tarsnap.key .putty .config/putty .vnc/passwd
    .config/tigervnc/passwd .smbcredentials .davfs2/secrets .android/adbkey .secrets .config/borg
    .config/syncthing .local/state/syncthing .config/filezilla .config/remmina .local/share/remmina
    .config/wireguard .openvpn
    """.split(),
    ".config/Bitwarden CLI",
    "Library/Application Support/Bitwarden",
    "Library/Application Support/1Password",
    ".config/Authy Desktop",
)
"""Keys and password stores; keys of remote desktops, backups and private networks."""
_CLOUD = tuple(
    """
    .aws .azure .kube .oci .s3cfg .boto .databrickscfg .fly .netlify .wrangler .config/gcloud .config/doctl
    .config/hcloud .config/rclone .config/.wrangler .config/netlify .config/scw .config/stripe .docker/config.json
    .config/containers/auth.json .terraformrc .terraform.d/credentials.tfrc.json .local/share/com.vercel.cli
    .config/heroku .kaggle .huggingface/token .cache/huggingface/token .cache/huggingface/stored_tokens .gsutil
    .mc .config/mc .rclone.conf .aliyun .bluemix .config/linode-cli .vultr-cli.yaml .config/vultr-cli.yaml
    .cloudflared .config/cloudflared .ngrok2 .config/ngrok .railway .config/railway .config/fly .render .supabase
    .now .vercel .pulumi/credentials.json .config/configstore/firebase-tools.json .config/openstack .snowsql
    .snowflake .config/snowflake .dbt/profiles.yml .config/argocd .argocd .config/helm .circleci/cli.yml
    .sentryclirc .config/kaggle .continuum .saml2aws .awsvault .chef
    """.split()
)
"""Credentials of clouds, clusters and image registries."""
_FORGES = tuple(
    """
    .netrc _netrc .git-credentials .config/git/credentials .config/gh .config/hub .config/glab-cli
    .config/github-copilot .npmrc .pypirc .config/pypoetry/auth.toml .cargo/credentials .cargo/credentials.toml
    .gem/credentials .composer/auth.json .config/composer/auth.json .m2/settings-security.xml
    .nuget/NuGet/NuGet.Config .pgpass .my.cnf .mylogin.cnf .config/tea .python-gitlab.cfg .travis .subversion/auth
    .local/share/gem/credentials .conan2/credentials.json .local/share/uv/credentials .authinfo .authinfo.gpg
    .msmtprc .config/msmtp .mbsyncrc .offlineimaprc .fetchmailrc
    """.split()
)
"""Credentials of forges, package registries, databases and mailboxes."""
_BUILD_SETTINGS = tuple(
    """
    .config/pip/pip.conf .pip/pip.conf .m2/settings.xml .gradle/gradle.properties .gradle/init.gradle
    .config/uv/uv.toml .condarc .yarnrc .yarnrc.yml .bunfig.toml .cargo/config .cargo/config.toml .bundle/config
    .config/pypoetry/config.toml .sbt/.credentials .ivy2/.credentials .hgrc .config/hg/hgrc .wgetrc .curlrc
    """.split()
)
"""Settings of build tools, which may have a password for a mirror. A file with one counts as credentials."""
_MAX_OF_SETTINGS = 256 * 1024
"""Most bytes of such a file that are searched."""
_HISTORIES = tuple(
    """
    .bash_history .zsh_history .zhistory .histfile .sh_history .ksh_history .history
    .local/share/fish/fish_history .local/state/bash/history .local/state/zsh/history .local/share/zsh/history
    .psql_history .mysql_history .sqlite_history .rediscli_history .dbshell .mongodb .python_history
    .local/state/python_history .node_repl_history .irb_history .viminfo .local/share/atuin .local/share/mcfly
    """.split()
)
"""Histories of typed commands, which may contain passwords."""
_MESSENGERS = (
    *"""
    .config/Signal .config/Slack .config/discord .config/Element .config/Microsoft .config/teams
    .config/skypeforlinux .local/share/TelegramDesktop .purple .weechat .config/weechat .local/share/weechat
    .irssi .config/hexchat .config/evolution .local/share/evolution .claws-mail snap/signal-desktop snap/slack
    snap/discord snap/telegram-desktop .var/app/org.signal.Signal .var/app/com.slack.Slack
    .var/app/com.discordapp.Discord .var/app/org.telegram.desktop Library/Messages Library/Mail
    """.split(),
    ".config/Proton Mail",
    "Library/Application Support/Signal",
    "Library/Application Support/Slack",
    "Library/Application Support/discord",
    "Library/Group Containers",
)
_WALLETS = (
    *"""
    .bitcoin .litecoin .dogecoin .dashcore .zcash .ethereum .electrum .monero .bitmonero Monero .walletwasabi
    .config/solana .config/Exodus .config/atomic .foundry/keystores Library/Ethereum
    """.split(),
    ".config/Ledger Live",
    "Library/Application Support/Bitcoin",
    "Library/Application Support/Electrum",
    "Library/Application Support/Exodus",
)
_AGENTS = tuple(
    """
    .claude/.credentials.json .claude.json .codex/auth.json .gemini/oauth_creds.json .gemini/google_accounts.json
    .qwen/oauth_creds.json .local/share/opencode/auth.json .config/opencode/auth.json .pi/agent/auth.json
    .vibe/.env .kimi/credentials .gemini/.env .qwen/.env .continue/.env .local/share/amp/secrets.json
    .config/goose .config/Cursor .config/Code/User/globalStorage
    """.split()
)
"""Credentials of other agents."""
_BROWSERS = (
    *"""
    .mozilla .thunderbird .librewolf .waterfox .config/google-chrome .config/google-chrome-beta .config/chromium
    .config/BraveSoftware .config/microsoft-edge .config/vivaldi .config/opera .config/mozilla
    .var/app/org.mozilla.firefox .var/app/com.google.Chrome .var/app/org.chromium.Chromium
    .var/app/com.brave.Browser snap/firefox snap/chromium Library/Safari Library/Cookies
    Library/Containers/com.apple.Safari Library/Thunderbird
    """.split(),
    "Library/Application Support/Firefox",
    "Library/Application Support/Google/Chrome",
    "Library/Application Support/Chromium",
    "Library/Application Support/BraveSoftware",
    "Library/Application Support/Microsoft Edge",
    "Library/Application Support/Vivaldi",
    "Library/Application Support/Arc",
)
"""Profiles of browsers and mail programs: passwords and session cookies."""

CREDENTIALS = _KEYS + _CLOUD + _FORGES + _HISTORIES + _MESSENGERS + _WALLETS + _AGENTS + _BROWSERS
"""Files and folders below a home folder that contain secrets; a folder includes everything in it."""

_RELOCATING_VARIABLES = {
    "AWS_SHARED_CREDENTIALS_FILE": "",
    "AWS_CONFIG_FILE": "",
    "AZURE_CONFIG_DIR": "",
    "CLOUDSDK_CONFIG": "",
    "GOOGLE_APPLICATION_CREDENTIALS": "",
    "GNUPGHOME": "",
    "PASSWORD_STORE_DIR": "",
    "DOCKER_CONFIG": "config.json",
    "REGISTRY_AUTH_FILE": "",
    "KUBECONFIG": "",
    "GH_CONFIG_DIR": "",
    "NETRC": "",
    "PGPASSFILE": "",
    "XAUTHORITY": "",
    "NPM_CONFIG_USERCONFIG": "",
    "npm_config_userconfig": "",
    "CARGO_HOME": "credentials.toml",
    "SOPS_AGE_KEY_FILE": "",
    "VAULT_TOKEN_PATH": "",
    "HF_TOKEN_PATH": "",
    "CODEX_HOME": "auth.json",
    "CLAUDE_CONFIG_DIR": ".credentials.json",
    "KRB5CCNAME": "",
    "KRB5_KTNAME": "",
    "RCLONE_CONFIG": "",
    "BOTO_CONFIG": "",
    "MYSQL_TEST_LOGIN_FILE": "",
    "HISTFILE": "",
    "PSQL_HISTORY": "",
    "MYSQL_HISTFILE": "",
    "NODE_REPL_HISTORY": "",
    "PYTHON_HISTORY": "",
    "SOPS_AGE_SSH_PRIVATE_KEY_FILE": "",
    "HELM_REGISTRY_CONFIG": "",
    "OCI_CLI_CONFIG_FILE": "",
    "CONAN_HOME": "credentials.json",
}
"""Variables that move credentials, with the file in that folder that has them ("": the whole path)."""

GIT_FOLDER = ".git"
GIT_CONTROLS = tuple(
    """
    hooks config config.worktree commondir info/attributes info/exclude info/sparse-checkout
    modules/**/hooks modules/**/config
    modules/**/config.worktree modules/**/commondir modules/**/info/attributes worktrees/*/config.worktree
    worktrees/*/commondir worktrees/*/gitdir
    """.split()
)
"""Files below a git folder that make git run a program, read configuration from elsewhere, or hide files from its
status. A new `commondir` counts too: git obeys it at once. The name of a submodule may contain slashes (`**`)."""

PROTECTED_FOLDERS = frozenset(
    {
        GIT_FOLDER,
        ".nexus",
        ".vscode",
        ".idea",
        ".husky",
        ".devcontainer",
        ".claude",
        ".codex",
        ".agents",
        ".cursor",
        ".gemini",
        ".qwen",
        ".zed",
    }
)
"""Folded names of folders that tools and agents obey: anything at or below one, anywhere in a project."""
INSTRUCTION_FILES = frozenset(
    """
    nexus.md agents.md agents.override.md soul.md identity.md agent.md preferences.md claude.md claude.local.md
    gemini.md qwen.md .cursorrules .windsurfrules .clinerules copilot-instructions.md .mcp.json
    """.split()
)
"""Folded names of files that agents obey."""
SHELL_FILES = frozenset(
    """
    .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin
    .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout .inputrc .envrc .xprofile .xinitrc .xsession .xsessionrc
    config.fish .pam_environment
    """.split()
)
"""Folded names of files that a shell or a login executes when it starts."""
EDITOR_FILES = frozenset(
    {
        ".vimrc",
        ".gvimrc",
        ".exrc",
        ".nvimrc",
        ".nvim.lua",
        ".emacs",
        ".dir-locals.el",
        ".dir-locals-2.el",
    }
)
"""Folded names of files that an editor executes when it starts, or when it opens a file in the same folder."""
GIT_FILES = frozenset({".gitconfig", ".gitmodules"})
"""Folded names of git's configuration outside its folder."""

OBEYED_FOLDERS = frozenset(
    """
    .hg .jj .sl .githooks .vim .nvim .emacs.d .helix .fleet .yarn .mise .mvn .cargo .bundle .circleci .buildkite
    .woodpecker
    """.split()
)
"""Folded names of folders with files that another program executes or obeys by itself. Editing such a file needs
approval; commands may write them, because tools do so in ordinary work (`hg init`, `yarn set version`)."""
OBEYED_FILES = frozenset(
    """
    .pre-commit-config.yaml .pre-commit-config.yml lefthook.yml .lefthook.yml lefthook.yaml .lefthook.yaml
    lefthook.toml .lefthook.toml lefthook.json .lefthook.json lefthook-local.yml .lefthook-local.yml
    .overcommit.yml .huskyrc .huskyrc.json .lintstagedrc .lintstagedrc.json .lintstagedrc.yml .lintstagedrc.yaml
    .simple-git-hooks.json .hgrc .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .pnp.cjs bunfig.toml .pypirc pip.conf
    .gemrc .bazelrc .bazeliskrc .buckconfig .buckconfig.local mise.toml .mise.toml mise.local.toml
    .mise.local.toml .rtx.toml .tool-versions .autoenv .autoenv.zsh .devcontainer.json .gdbinit .lldbinit .pdbrc
    .pdbrc.py .pythonrc .pythonrc.py sitecustomize.py usercustomize.py .irbrc .pryrc .rprofile .renviron .ghci
    .ocamlinit .iex.exs .octaverc .vimrc.local .lvimrc .local.vimrc .ideavimrc .kakrc .tmux.conf .screenrc .curlrc
    .wgetrc .gitlab-ci.yml .gitlab-ci.yaml .travis.yml azure-pipelines.yml azure-pipelines.yaml
    bitbucket-pipelines.yml jenkinsfile .drone.yml .woodpecker.yml .woodpecker.yaml appveyor.yml .appveyor.yml
    .cirrus.yml cloudbuild.yaml cloudbuild.yml
    """.split()
)
"""Folded names of files of the same kind: for hooks, package and tool managers, debuggers and interpreters that read
their working folder, and pipelines, which run elsewhere with secrets. Files that run only with the project itself
(`Makefile`, `package.json`, `conftest.py`) are ordinary work and not listed."""
OBEYED_ENDINGS = (".code-workspace", ".sublime-project")
_OBEYED_BELOW = (
    (".github", "workflows"),
    (".github", "actions"),
    (".forgejo", "workflows"),
    (".gitea", "workflows"),
    (".config", "mise"),
    (".config", "fish"),
    (".config", "nvim"),
    (".config", "git"),
    (".config", "autostart"),
    (".config", "systemd"),
    (".config", "environment.d"),
    (".local", "bin"),
    ("library", "launchagents"),
    ("tools", "bazel"),
)
"""The same by two consecutive names, including those in a home folder, which may be the project."""

PROTECTED_FILES = INSTRUCTION_FILES | SHELL_FILES | EDITOR_FILES | GIT_FILES


BUILD_FOLDERS = frozenset(
    """
    node_modules bower_components jspm_packages site-packages venv .venv .tox .nox __pycache__ __pypackages__
    .mypy_cache .pytest_cache .ruff_cache .hypothesis .eggs target vendor dist build .cache .gradle .next .nuxt
    .svelte-kit .turbo .parcel-cache .terraform .bundle .build .dart_tool pods deriveddata _build .direnv htmlcov
    """.split()
)
"""Folded names of folders that tools install or build into: files in them are not work, and not guarded unless git's
index links to their repository."""


def credential_paths(environ: Environ = os.environ) -> Paths:
    """Return credential paths, existing or not, below `HOME` and below the home folder of the user database."""
    variables = ("HOME", "XDG_CONFIG_HOME", *_RELOCATING_VARIABLES)
    paths, settings = _credential_paths(tuple((name, value) for name in variables if (value := environ.get(name))))
    return (*paths, *filter(holds_password, settings))


def holds_password(path: Path) -> bool:
    """Return True if a password or key is found in a file, or if the file exists and cannot be read."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return _shows_password(path, status.st_mtime_ns, status.st_ctime_ns, status.st_size)


@lru_cache(64)
def _shows_password(path: Path, *_stamp: int) -> bool:
    try:
        return has_password(read_beginning(path, _MAX_OF_SETTINGS))
    except OSError:
        return True


def has_password(data: bytes) -> bool:
    """Return True if a password or key is found in the content of a file."""
    from nexus_cli.core.redact_secrets import redact  # noqa: PLC0415  (only where there is such a file)

    text = data.decode("utf-8", "replace")
    return redact(text, environ={}) != text


@lru_cache(8)
def _credential_paths(variables: tuple[tuple[str, str], ...]) -> tuple[Paths, Paths]:
    """Return the credential paths, and settings that may have a password."""
    environ = dict(variables)
    homes = home_folders(environ.get("HOME", ""))
    paths = [home / name for home in homes for name in CREDENTIALS]
    base = os.path.normpath(environ.get("XDG_CONFIG_HOME", ""))
    if os.path.isabs(base):
        paths += [Path(base) / name.removeprefix(".config/") for name in CREDENTIALS if name.startswith(".config/")]
    for variable, name in _RELOCATING_VARIABLES.items():
        value = environ.get(variable, "")
        # KUBECONFIG is a list; KRB5CCNAME may have a kind in front.
        for part in value.removeprefix("FILE:").split(os.pathsep):
            # `HISTFILE=/dev/null` disables the history.
            if os.path.isabs(part) and not is_below(os.path.normpath(part), "/dev"):
                paths.append(Path(os.path.normpath(part), name))
    settings = tuple(home / name for home in homes for name in _BUILD_SETTINGS)
    return tuple(dict.fromkeys(path for path in paths if len(path.parts) > 1)), settings


def own_paths(folders: Places) -> Paths:
    """Return nexus's own folders with keys, conversations and permissions; not the cache."""
    return (folders.config, folders.data, folders.log)


def shown_paths(folders: Places) -> Paths:
    """Return nexus's own folders that commands may read, without secrets: skills, plugins, records of trust."""
    return (
        folders.config / "skills",
        folders.data / "trust.json",
        folders.data / "plugins",
        folders.data / "plugins.json",
    )


_PROCESSES = (Path("/proc/self"), Path("/proc/thread-self"))
"""Environment, memory and open files of processes; `/proc/PID` is treated as `/proc/self`."""


HOLDS_SECRETS = "holds credentials, which the sandbox hides from commands"
"""The end of the reason for which a command that reads such a place does not run unasked."""


class SecretPlaces:
    """Places that no call may read or write: credentials, nexus's own folders, the targets of links there, and files
    of processes in /proc.

    Exceptions: personal skills and instruction files, which are for the model; own folders that contain the `project`,
    except stored keys and ledger; and a worktree, but nothing beside it.
    """

    def __init__(self, folders: Places, project: Path, environ: Environ = os.environ) -> None:
        """Look up the places as they exist now."""
        root = os.path.realpath(project)
        worktree = find_worktree(project, folders)
        self._worktree = _fold_path(Path(root)) if worktree else None
        protected = [path for path in own_paths(folders) if worktree or not is_below(root, os.path.realpath(path))]
        paths = [*credential_paths(environ), *protected, folders.keys, folders.ledger, *_PROCESSES]
        self._places: dict[tuple[str, ...], Path] = {}
        for path in paths:
            self._places[_fold_path(path)] = path
            if os.path.lexists(path) and path not in _PROCESSES:
                self._places[_fold_path(real_path(path))] = path
        config = real_path(folders.config)
        self._open = [_fold_path(config / name) for name in ("skills", *INSTRUCTION_FILES)]
        self._open.append(_fold_path(real_path(folders.data) / "plugins"))

    def find(self, target: Path, inside: Path | None = None) -> Path | None:
        """Return the secret place that contains the real path `target`, or None; with `inside` only places in it."""
        names = _fold_path(target)
        if len(names) > 1 and names[0] == "proc" and names[1].isdigit():
            names = ("proc", "self", *names[2:])
        if any(names[: len(parts)] == parts for parts in self._open):
            return None
        first = len(inside.parts) if inside else 1
        if self._worktree and names[: len(self._worktree)] == self._worktree:
            first = max(first, len(self._worktree))
        above = (names[:end] for end in range(first, len(names) + 1))
        return next((self._places[parent] for parent in above if parent in self._places), None)

    def paths(self) -> Collection[Path]:
        """Return the places, existing or not."""
        return self._places.values()

    def are_below(self, folder: Path) -> bool:
        """Return True if the real path `folder` contains a secret place."""
        names = _fold_path(folder)
        return any(len(place) > len(names) and place[: len(names)] == names for place in self._places)


def protected_name(names: Iterable[str]) -> str:
    """Return the first protected name in a path, folded, else "". Names of files count only in last place."""
    folded = [fold_name(name) for name in names]
    inside = next((name for name in folded if name in PROTECTED_FOLDERS), "")
    return inside or (folded[-1] if folded and folded[-1] in PROTECTED_FILES else "")


def obeyed_name(names: Iterable[str]) -> str:
    """Return the folded name, or pair of names, in a path that another program obeys by itself; "" if there is none.

    Unlike those of `protected_name`, these only need approval in edits.
    """
    folded = [fold_name(name) for name in names]
    inside = next((name for name in folded if name in OBEYED_FOLDERS), "")
    pair = next((pair for pair in pairwise(folded) if pair in _OBEYED_BELOW), ())
    last = folded[-1] if folded else ""
    return inside or "/".join(pair) or (last if last in OBEYED_FILES or last.endswith(OBEYED_ENDINGS) else "")


def fold_path(path: str) -> str:
    """Return a path with each name as `fold_name` folds it."""
    return "/".join(map(fold_name, path.split("/")))


def fold_name(name: str) -> str:
    """Normalize a name as the most lenient file system would: no case, invisible characters, final dots or spaces."""
    if name.isascii():
        return name.casefold().rstrip(". ")
    visible = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
    return visible.casefold().rstrip(". ")


def home_folders(home_value: str) -> list[Path]:
    """Return the person's home folders: `home_value` (the value of `HOME`), and that in the user database."""
    try:
        listed = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        listed = ""
    return [Path(os.path.normpath(home)) for home in dict.fromkeys((home_value, listed)) if os.path.isabs(home)]


@lru_cache(1024)
def _fold_path(path: Path) -> tuple[str, ...]:
    return tuple(map(fold_name, path.parts[1:]))
