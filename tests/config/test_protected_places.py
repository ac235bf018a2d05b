"""The list of credentials and protected names that every guard uses.

Owns what counts as one; what a guard does with it belongs to permission and to the sandbox.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from nexus_cli.config.paths import Places
from nexus_cli.config.protected_places import (
    CREDENTIALS,
    GIT_CONTROLS,
    PROTECTED_FILES,
    PROTECTED_FOLDERS,
    credential_paths,
    fold_name,
    own_paths,
    protected_name,
)


def test_credentials_are_found_in_both_homes_of_a_person() -> None:
    listed = Path(pwd.getpwuid(os.getuid()).pw_dir)
    found = credential_paths({"HOME": "/home/ada"})
    assert Path("/home/ada/.ssh") in found
    assert listed / ".ssh" in found
    assert len(found) == len(set(found))
    assert all(path.is_absolute() for path in found)


def test_variables_that_move_credentials_are_followed() -> None:
    found = credential_paths(
        {
            "HOME": "/home/ada",
            "XDG_CONFIG_HOME": "/x",
            "KUBECONFIG": "/k/one:/k/two",
            "KRB5CCNAME": "FILE:/tmp/krb5cc_0",
            "DOCKER_CONFIG": "/d",
            "CARGO_HOME": "relative/is/ignored",
            "GNUPGHOME": "/g/../gnupg",
        }
    )
    wanted = ["/x/gh", "/k/one", "/k/two", "/tmp/krb5cc_0", "/d/config.json", "/gnupg"]
    assert {Path(path) for path in wanted} <= set(found)
    assert not any("relative" in path.parts for path in found)


def test_a_device_is_no_credential() -> None:
    """Nothing would work without it."""
    for variable in ("HISTFILE", "MYSQL_HISTFILE", "NPM_CONFIG_USERCONFIG", "GNUPGHOME"):
        for path in ("/dev/null", "/x/../dev//null"):
            assert not any(one.is_relative_to("/dev") for one in credential_paths({"HOME": "/h", variable: path}))
    assert Path("/home/ada/log") in credential_paths({"HOME": "/home/ada", "HISTFILE": "/home/ada/log"})


def test_no_variable_makes_the_whole_disk_a_credential() -> None:
    assert Path("/") not in credential_paths({"HOME": "/", "GNUPGHOME": "/", "KUBECONFIG": "//"})


def test_listed_paths_are_relative_and_plain() -> None:
    for path in (*CREDENTIALS, *GIT_CONTROLS):
        assert not os.path.isabs(path)
        assert os.path.normpath(path) == path
        assert ".." not in path.split("/"), path


def test_listed_names_are_folded() -> None:
    assert [name for name in PROTECTED_FOLDERS | PROTECTED_FILES if fold_name(name) != name] == []


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("src/app.py", ""),
        ("a/.GIT/Hooks/pre-commit", ".git"),
        ("sub/.vscode/tasks.json", ".vscode"),
        ("NEXUS.md", "nexus.md"),
        ("NEXUS.md/other", ""),
        (".g\u200bit/config", ".git"),
        ("docs/.envrc.", ".envrc"),
        ("", ""),
    ],
)
def test_names_are_protected_however_they_are_spelled(path: str, name: str) -> None:
    assert protected_name(Path(path).parts) == name


def test_the_cache_is_not_among_our_own_secrets() -> None:
    own = Places(Path("/n/config"), Path("/n/data"), Path("/n/cache"), Path("/n/log"))
    assert own_paths(own) == (own.config, own.data, own.log)


@pytest.mark.matrix
@pytest.mark.parametrize(
    "name",
    [
        ".bash_history",
        ".zsh_history",
        ".psql_history",
        ".mysql_history",
        ".python_history",
        ".node_repl_history",
        ".local/share/fish/fish_history",
        ".config/Signal/config.json",
        ".config/Slack/Cookies",
        ".config/discord/x",
        ".local/share/TelegramDesktop/tdata/key_datas",
        ".config/Element/x",
        ".bitcoin/wallet.dat",
        ".electrum/wallets/w",
        ".ethereum/keystore/k",
        ".config/solana/id.json",
        ".config/Exodus/x",
        ".config/rclone/rclone.conf",
        ".s3cfg",
        ".boto",
        ".config/doctl/config.yaml",
        ".fly/config.yml",
        ".netlify/config.json",
        ".vault-token",
        ".age/key",
        ".config/sops/age/keys.txt",
        ".config/1Password/x",
        ".config/Bitwarden/data.json",
        ".config/rbw/config.json",
        ".local/share/keyrings/login.keyring",
        ".config/ngrok/ngrok.yml",
        ".cloudflared/cert.pem",
        ".sentryclirc",
        ".snowsql/config",
        ".dbt/profiles.yml",
        ".pulumi/credentials.json",
        ".msmtprc",
        ".authinfo",
        ".subversion/auth/x",
        ".vnc/passwd",
        ".config/filezilla/sitemanager.xml",
        ".android/adbkey",
        ".gemini/.env",
        ".purple/accounts.xml",
        ".config/helm/registry/config.json",
        ".tsh/keys/x",
        ".step/secrets/x",
        ".config/gopass/config",
    ],
)
def test_keys_histories_messengers_and_wallets_are_secret(name: str) -> None:
    home = Path("/home/ada")
    found = set(credential_paths({"HOME": str(home)}))
    assert found & {home / name, *(home / name).parents}


@pytest.mark.parametrize(
    ("name", "plain", "secret"),
    [
        (
            ".config/pip/pip.conf",
            "[global]\nindex-url = https://pypi.example.org/simple\n",
            "[global]\nindex-url = https://bob:hunter2@pypi.example.org/simple\n",
        ),
        (
            ".m2/settings.xml",
            "<settings><mirrors><mirror><url>https://m.example.org</url></mirror></mirrors></settings>",
            "<server><id>x</id><username>bob</username><password>hunter22</password></server>",
        ),
        (
            ".gradle/gradle.properties",
            "org.gradle.jvmargs=-Xmx4g\norg.gradle.caching=true\n",
            "nexusPassword=hunter22\n",
        ),
        (
            ".cargo/config.toml",
            "[net]\noffline = true\n[build]\njobs = 2\n",
            '[registries.x]\ntoken = "cio0123456789abcd"\n',
        ),
        (".yarnrc.yml", "npmRegistryServer: https://npm.example.org\n", 'npmAuthToken: "npm_0123456789abcdefghij"\n'),
        (".bunfig.toml", "[install]\nexact = true\n", '[install]\nregistry = { token = "abcd1234efgh5678" }\n'),
    ],
)
def test_settings_of_build_tools_are_secret_where_they_hold_a_password(
    tmp_path: Path, name: str, plain: str, secret: str
) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    assert path not in credential_paths({"HOME": str(tmp_path)})
    path.write_text(plain)
    assert path not in credential_paths({"HOME": str(tmp_path)})
    path.write_text(plain + secret)
    assert path in credential_paths({"HOME": str(tmp_path)})
    path.unlink()
    os.mkfifo(path)
    assert path in credential_paths({"HOME": str(tmp_path)}), "what cannot be looked at counts"
