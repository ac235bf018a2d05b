"""Which variables reach a command: by name and by value, what is harmless stays."""

from __future__ import annotations

import base64
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexus_cli.config.paths import Places
from nexus_cli.sandbox.profile import ProfileName, make_profile
from nexus_cli.sandbox.sandbox_environment import is_secret, mask_secrets, sandbox_environment

PEM = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5v\n-----END OPENSSH PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
SECRETS = {
    # by value
    "DATABASE_URL": "postgres://shop:hunter2@db.example.org/shop",
    "REDIS_URL": "redis://:s3cr3tpw@cache:6379/0",
    "MONGODB_URI": "mongodb+srv://app:p4ssw0rd@cluster0.example.net/db",
    "AMQP_URL": "amqps://u:pw@mq.example.org/v",
    "CELERY_BROKER": "amqp://guest:guest@localhost//",
    "SQLALCHEMY_DATABASE_URI": "mysql+pymysql://u:geheim@h/d",
    "PIP_EXTRA_INDEX_URL": "https://bob:t0ken@pypi.example.org/simple",
    "HTTPS_PROXY": "http://me:pass@proxy:3128",
    "REPO": "https://ghp_abcdefghij0123456789abcdefghij012345@github.com/a/b",
    "UPLINK": f"Bearer {JWT}",
    "ERRORS_TO": "https://0123456789abcdef0123456789abcdef@o1.ingest.example.io/1",
    "MY_SESSION": JWT,
    "DEPLOY": PEM,
    "STUFF": "sk-proj-abcdefghijklmnop0123456789",
    "BOT": "xoxb-1234567890-abcdefghijkl",
    "CLOUD": "AKIAIOSFODNN7EXAMPLE",
    "MAPS": "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "MODEL": "hf_abcdefghijklmn0pqrst",
    "NOTIFY": "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXX",
    "X": "glpat-abcdefghij0123456789",
    "STORAGE": "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=" + base64.b64encode(b"k" * 64).decode(),
    "HEADERS": "Authorization: Bearer abcdef0123456789",
    "DB": "host=db user=app password=Tr0ub4dor&3",
    # by name
    "SENTRY_DSN": "x",
    "JWT": "x",
    "SESSION_COOKIE": "x",
    "COOKIE": "x",
    "SSHPASS": "x",
    "PRIVATE_KEY_PEM": "x",
    "AZURE_STORAGE_CONNECTION_STRING": "x",
    "SQL_CONN_STR": "x",
    "TLS_PEM": "x",
    "AUTH_SALT": "x",
    "DB_CREDS": "x",
    "WALLET_MNEMONIC": "x",
    "SLACK_WEBHOOK_URL": "x",
    "RSA_PRIVATE_KEY_BASE64": "x",
    "ENCRYPTION_KEY_V2": "x",
    "MYSQL_PASSWD_ROOT": "x",
    "GH_PAT": "x",
    "REGISTRY_AUTH": "x",
    "RAILS_MASTER_KEY": "x",
    "BW_SESSION": "x",
}
HARMLESS = {
    "PATH": "/home/ada/.local/bin:/usr/local/bin:/usr/bin:/bin",
    "HOME": "/home/ada",
    "LANG": "de_DE.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TERM": "xterm-256color",
    "SHELL": "/bin/zsh",
    "USER": "ada",
    "LOGNAME": "ada",
    "PWD": "/x",
    "OLDPWD": "/home/ada/work",
    "SHLVL": "2",
    "EDITOR": "code --wait",
    "PAGER": "less -R",
    "TZ": "Europe/Berlin",
    "DISPLAY": ":0",
    "WAYLAND_DISPLAY": "wayland-0",
    "XDG_RUNTIME_DIR": "/run/user/1000",
    "XDG_SESSION_ID": "3",
    "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/user/1000/bus,guid=0123456789abcdef0123456789abcdef",
    "SSH_AUTH_SOCK": "/run/user/1000/keyring/ssh",
    "SSH_AGENT_PID": "4711",
    "GIT_ASKPASS": "/usr/bin/ksshaskpass",
    "SSH_ASKPASS": "/usr/bin/ssh-askpass",
    "SSH_CONNECTION": "192.0.2.7 51234 192.0.2.1 22",
    "MONKEY": "banana",
    "GIT_AUTHOR_NAME": "Ada Lovelace",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada Lovelace",
    "GIT_SSH_COMMAND": "ssh -i ~/.ssh/id_ed25519 -o IdentitiesOnly=yes",
    "CI": "true",
    "GITHUB_ACTIONS": "true",
    "GITHUB_SHA": "4385ff41c8d1b0c4a1de3bd36b3a9f1c2d4e5f60",
    "GITHUB_REPOSITORY": "ada/engine",
    "GITHUB_REF": "refs/heads/feature/new-token-parser",
    "VIRTUAL_ENV": "/home/ada/app/.venv",
    "PYTHONPATH": "src:tests",
    "CONDA_PREFIX": "/opt/conda/envs/key-value",
    "NODE_ENV": "test",
    "NODE_OPTIONS": "--max-old-space-size=4096",
    "NVM_DIR": "/home/ada/.nvm",
    "GOPATH": "/home/ada/go",
    "GOFLAGS": "-mod=mod",
    "GOPROXY": "https://proxy.golang.org",
    "CARGO_HOME": "/home/ada/.cargo",
    "RUSTFLAGS": "-C target-cpu=native",
    "JAVA_HOME": "/usr/lib/jvm/java-17",
    "MAVEN_OPTS": "-Xmx2g -Djava.net.preferIPv4Stack=true",
    "CC": "gcc-12",
    "CFLAGS": "-O2 -g -Wall",
    "MAKEFLAGS": "-j8",
    "DATABASE_URL": "sqlite:///db.sqlite3",
    "TEST_DATABASE_URI": "postgresql://localhost:5432/test_shop",
    "PGUSER_URL": "postgres://postgres@localhost/shop",
    "REDIS_URL": "redis://localhost:6379/0",
    "PGHOST": "/tmp/pg",
    "http_proxy": "http://proxy.example.org:3128",
    "no_proxy": "localhost,127.0.0.1,::1,.example.org",
    "PIP_INDEX_URL": "https://pypi.example.org/simple",
    "npm_config_registry": "https://npm.example.org/",
    "KEYBOARD": "de",
    "XKB_DEFAULT_LAYOUT": "de",
    "KEYMAP": "de-latin1-nodeadkeys",
    "KEYTIMEOUT": "1",
    "COMPASS": "north",
    "TOKENIZERS_PARALLELISM": "false",
    "AUTHOR": "ada",
    "AUTHORITY": "x",
    "PASSENGER": "7",
    "BYPASS": "no",
    "PATTERN": "*",
    "LS_COLORS": "rs=0:di=01;34:ln=01;36:mh=00:pi=40;33:so=01;35:do=01;35:bd=40;33;01:*.tar=01;31:*.key=00;33",
    "PS1": r"\[\e[32m\]\u@\h:\w\$ ",
    "LESSOPEN": "| /usr/bin/lesspipe %s",
    "DEBEMAIL": "ada@example.org",
    "DOCKER_HOST": "unix:///run/user/1000/docker.sock",
    "KUBECONFIG": "/home/ada/.kube/config",
    "AWS_REGION": "eu-west-1",
    "AWS_PROFILE": "shop-prod",
    "GIT_URL": "ssh://git@github.com/ada/engine.git",
    "SESSION_MANAGER": "local/host:@/tmp/.ICE",
    "BUILD_ID": "7f3c9a52-1d7e-4b0a-9a51-3f8e2d6c4b10",
    "SOURCE_DATE_EPOCH": "1700000000",
    "COLORTERM": "truecolor",
    "PYTHONHASHSEED": "0",
    "COVERAGE_FILE": ".coverage",
    "DJANGO_SETTINGS_MODULE": "shop.settings.secret_santa",
    "IMAGE": "registry.example.org/shop/api@sha256:4bcff63911fcb4448bd4fdacec207030997caf25e9bea4045fa6c8c44de311d1",
    "TOKEN_TYPE": "bearer",
    "KEYCLOAK_URL": "https://sso.example.org/realms/shop",
    "HISTFILE": "/home/ada/.zsh_history",
}


@pytest.mark.matrix
@pytest.mark.parametrize("name", SECRETS)
def test_secrets_are_known_by_name_or_value(name: str) -> None:
    assert is_secret(name, SECRETS[name])


@pytest.mark.matrix
@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_variables_stay(name: str) -> None:
    assert not is_secret(name, HARMLESS[name])


def test_the_lists_are_long_enough_to_mean_something() -> None:
    assert len(SECRETS) >= 35 and len(HARMLESS) >= 60


def test_a_secret_value_is_taken_out_told_masked_and_passed_as_one_with_a_secret_name(tmp_path: Path) -> None:
    own = Places(*(tmp_path / name for name in ("config", "data", "cache", "log")))
    environ = {"PATH": "/bin", "DATABASE_URL": SECRETS["DATABASE_URL"], "REDIS_URL": SECRETS["REDIS_URL"]}
    profile = make_profile("write", project=tmp_path, cwd=tmp_path, own=own, temp=tmp_path, environ={"HOME": "/h"})
    env, taken = sandbox_environment(profile, environ, ["REDIS_URL"])
    assert taken == ("DATABASE_URL",) and "DATABASE_URL" not in env and env["REDIS_URL"] == environ["REDIS_URL"]
    text, names = mask_secrets(f"connecting to {environ['DATABASE_URL']}", environ, ["REDIS_URL"])
    assert text == "connecting to [DATABASE_URL]" and names == ("DATABASE_URL",)


@pytest.mark.parametrize("name", ["read", "write"])
def test_npm_gets_two_files_for_its_settings_as_it_refuses_one_for_both(name: ProfileName, tmp_path: Path) -> None:
    own = Places(*(tmp_path / name for name in ("config", "data", "cache", "log")))
    environ = {"PATH": "/bin", "HOME": "/h"}
    profile = make_profile(name, project=tmp_path, cwd=tmp_path, own=own, temp=tmp_path, environ=environ)
    env, _ = sandbox_environment(profile, environ)
    assert env["NPM_CONFIG_USERCONFIG"] != env["NPM_CONFIG_GLOBALCONFIG"]
    env, _ = sandbox_environment(profile, {**environ, "NPM_CONFIG_GLOBALCONFIG": "/dev/null"})
    assert (env["NPM_CONFIG_GLOBALCONFIG"] == "/dev/null") is (name == "write"), "a reader sees no settings of npm"


WORD = st.text(string.ascii_letters + string.digits, min_size=1, max_size=12)


@pytest.mark.matrix
@given(
    scheme=st.sampled_from(["postgres", "redis", "https", "mongodb+srv", "ftp"]),
    user=st.one_of(st.just(""), WORD),
    password=WORD,
    host=WORD,
    path=WORD,
)
def test_no_address_with_a_password_reaches_a_command(
    scheme: str, user: str, password: str, host: str, path: str
) -> None:
    assert is_secret("ADDRESS", f"{scheme}://{user}:{password}@{host}/{path}")
    assert not is_secret("ADDRESS", f"{scheme}://{host}/{path}")
