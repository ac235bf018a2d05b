"""What reaches a request without a decided call: each way in which a project can name a file, times each trap."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from guide_files import COMMAND, SKILL, list_files, read_file_of, read_guide

from nexus_cli.config.paths import places
from nexus_cli.config.trust import read_configuration, trust
from nexus_cli.config.unasked_files import FileRefused, UnaskedFiles, is_credential_name
from nexus_cli.context.prompt_loader import PromptLoader
from nexus_cli.core.errors import NexusError
from nexus_cli.guides.skills import find_guides
from nexus_cli.sections.identity_files import IDENTITY, read_identity_files
from nexus_cli.sections.instruction_files import instruction_layers
from nexus_cli.sections.path_rules import list_path_rules

SECRET = "API_KEY=sk-ant-api03-9x8w7v6u5t4s3r2q1p0o9n8m7l6k5j4i3h2g1f0e"
NAMES = (
    *("NEXUS.md", "AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", ".cursorrules", ".github/copilot-instructions.md"),
    *(f".nexus/{name}" for name in IDENTITY),
)


def _to_env(path: Path) -> None:
    path.symlink_to(os.path.relpath(_root(path) / ".env", path.parent))


def _to_plain_env(path: Path) -> None:
    (_root(path) / ".env").write_text("HOST=internal-sk-ant\n")
    _to_env(path)


def _to_key(path: Path) -> None:
    path.symlink_to(_root(path).parent / "key.md")


def _to_key_inside(path: Path) -> None:
    path.symlink_to(os.path.relpath(_root(path) / "deploy", path.parent))


def _second_name(path: Path) -> None:
    os.link(_root(path) / ".env", path)


def _to_second_name(path: Path) -> None:
    document = _root(path) / f"{path.name}.md"
    document.unlink(missing_ok=True)
    os.link(_root(path) / ".env", document)
    path.symlink_to(document)


def _to_sparse(path: Path) -> None:
    with open(_root(path) / "big", "wb") as file:
        file.truncate(20 << 30)
    path.symlink_to(_root(path) / "big")


def _root(path: Path) -> Path:
    return next((folder for folder in path.parents if (folder / ".git").exists()), path.parent)


TRAPS: dict[str, Callable[[Path], object]] = {
    "link to .env": _to_env,
    "link to .env without a key": _to_plain_env,
    "second name of .env": _second_name,
    "link to a second name of .env": _to_second_name,
    "link to a key outside": _to_key,
    "link to a key inside": _to_key_inside,
    "FIFO": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "20 GB": _to_sparse,
    "link to itself": lambda path: path.symlink_to(path.name),
}
"""What lies in place of the file."""


def told_and_sent(repo: Path) -> tuple[str, str]:
    """Return all texts that a session in `repo` has of its files, and the notices about them."""
    layers, rules = instruction_layers(repo), list_path_rules(repo)
    persona = read_identity_files(IDENTITY, repo)
    texts = [*(one.text for one in layers), *(one.text for one in rules), *(one.text for one in persona)]
    notices = [*(one.notice for one in layers), *(one.notice for one in rules), *(one.notice for one in persona)]
    guides = [guide for kind in (SKILL, COMMAND) for guide in find_guides(repo, kind)[0]]
    for guide in guides:
        notices.append(guide.problem)
        reads: list[Callable[[], str]] = [partial(read_guide, guide)]
        reads += [partial(read_file_of, guide, name) for name in list_files(guide)]
        for read in reads:
            try:
                texts.append(read())
            except NexusError as error:
                notices.append(error.message)
    found = read_configuration(repo, (SKILL, COMMAND))
    notices += [found.problem, *map(str, found.left_out)]
    return "\n".join(texts), "\n".join(filter(None, notices))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    (folder / ".git").mkdir(parents=True)
    (folder / ".env").write_text(SECRET + "\n")
    (folder / "deploy").write_text(f"deploy:\n  {SECRET}\n")
    (tmp_path / "key.md").write_text(SECRET)
    return folder


def _judge(repo: Path, is_trusted: bool) -> None:
    """Trust the project as far as it can be: a trap in `.nexus` makes all of that unfit."""
    with suppress(NexusError):
        if is_trusted:
            trust(repo)


@pytest.mark.parametrize("is_trusted", [False, True])
def test_an_instruction_file_that_is_a_trap_is_named_and_never_sent(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_trusted: bool
) -> None:
    for name in NAMES:
        for kind, trap in TRAPS.items():
            (repo / ".env").write_text(SECRET + "\n")
            path = repo / name
            path.parent.mkdir(parents=True, exist_ok=True)
            trap(path)
            _judge(repo, is_trusted)
            sent, told = told_and_sent(repo)
            assert "sk-ant" not in sent and "\0" not in sent, (name, kind, sent[:200])
            assert path.name in told, (name, kind, told)
            monkeypatch.chdir(repo)
            if kind != "20 GB":  # which is a broken file for the loader of one's own programs
                assert "sk-ant" not in PromptLoader().load().content
            path.unlink()


@pytest.mark.parametrize("name", ["AGENTS.md", ".cursorrules", ".claude/rules/always.md", "docs/note.md"])
def test_a_document_that_is_a_second_name_of_credentials_is_named_and_not_sent(repo: Path, name: str) -> None:
    if name == "docs/note.md":
        (repo / "NEXUS.md").write_text(f"Read @{name}.")
    (repo / name).parent.mkdir(parents=True, exist_ok=True)
    os.link(repo / ".env", repo / name)
    sent, told = told_and_sent(repo)
    assert "sk-ant" not in sent and f"{name} holds credentials" in told.replace(" (line 1)", ""), told


@pytest.mark.parametrize("name", ["AGENTS.md", ".claude/skills/one/SKILL.md", ".nexus/commands/go.md"])
def test_a_second_name_of_credentials_is_known_by_the_file_where_its_content_says_nothing(
    repo: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(repo.parent))
    for secret in (repo.parent / ".netrc", repo / ".env.local"):
        secret.write_text("machine example.org login me password sesame\n")
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        os.link(secret, repo / name)
        _judge(repo, True)
        sent, told = told_and_sent(repo)
        assert "sesame" not in sent and f"{name} holds credentials" in told, (secret.name, told)
        (repo / name).unlink()


WAYS: dict[str, Callable[[Path], Path]] = {
    "import": lambda repo: _write(repo / "NEXUS.md", "Read @docs/plain and @docs/note.md.") / "docs/note.md",
    "import without a suffix": lambda repo: _write(repo / "NEXUS.md", "Read @./docs/note.") / "docs/note",
    "rule": lambda repo: repo / ".claude/rules/always.md",
    "rule by path": lambda repo: repo / ".claude/rules/deep/some.md",
    "skill": lambda repo: repo / ".claude/skills/one/SKILL.md",
    "file of a skill": lambda repo: _write(repo / ".agents/skills/two/SKILL.md", GUIDE) / ".agents/skills/two/b",
    "command": lambda repo: repo / ".claude/commands/go.md",
    "own skill": lambda repo: _write(repo / ".nexus/skills/three/SKILL.md", GUIDE) / ".nexus/skills/three/c.md",
    "own command": lambda repo: repo / ".nexus/commands/go.md",
}
GUIDE = "---\nname: x\ndescription: Does a thing\n---\nDo it.\n"
"""Each way in which a project gives a file: the path to put the trap at."""


def _write(path: Path, text: str) -> Path:
    """Write a file and return the project."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return _root(path)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_trusted", [False, True])
def test_a_file_that_a_project_gives_in_another_way_is_never_a_trap(repo: Path, way: str, is_trusted: bool) -> None:
    for kind, trap in TRAPS.items():
        (repo / ".env").write_text(SECRET + "\n")
        path = WAYS[way](repo)
        path.parent.mkdir(parents=True, exist_ok=True)
        trap(path)
        _judge(repo, is_trusted)
        sent, told = told_and_sent(repo)
        assert "sk-ant" not in sent and "\0" not in sent, (kind, sent[:200])
        if kind in ("link to .env", "second name of .env", "link to a key inside") and way != "file of a skill":
            assert "holds credentials" in told, (kind, told)
        path.unlink()


def test_a_file_of_a_skill_with_a_key_is_refused_and_a_document_is_not(repo: Path) -> None:
    mine = places().config / "skills/mine"
    for folder in (mine, repo / ".claude/skills/theirs"):
        _write(folder / "SKILL.md", GUIDE.replace("name: x", f"name: {folder.name}"))
        _write(folder / "key.json", f'{{"api_key": "{SECRET[8:]}"}}')
        _write(folder / ".env", "HOST=x")
        _write(folder / "example.md", f"Set {SECRET}")
    trust(repo)
    found = [one for one in find_guides(repo, SKILL)[0] if one.name in ("mine", "theirs")]
    assert len(found) == 2
    for guide in found:
        assert SECRET in read_file_of(guide, "example.md")
        for name in ("key.json", ".env"):
            with pytest.raises(NexusError, match="holds credentials"):
                read_file_of(guide, name)


def test_what_was_checked_is_what_is_read(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that is exchanged after the check leads nowhere."""
    (repo / "docs").mkdir()
    path = repo / "docs/note.md"
    path.write_text("harmless")
    gate = UnaskedFiles(repo)
    check = gate.check

    def exchange(*arguments: object, **options: object) -> Path:
        real = check(*arguments, **options)  # type: ignore[arg-type]
        path.unlink()
        path.symlink_to(repo / ".env")
        return real

    monkeypatch.setattr(gate, "check", exchange)
    with pytest.raises(OSError):
        gate.read(path, 1000)


def test_only_what_was_searched_for_a_key_is_read_of_a_file_that_is_no_document(repo: Path) -> None:
    (repo / "data.txt").write_text("x" * 300_000 + SECRET)
    found = UnaskedFiles(repo).read(repo / "data.txt", 1 << 20)
    assert found is not None and found.limit == 256 * 1024 and len(found.data) == found.limit + 1
    with pytest.raises(FileRefused):
        UnaskedFiles(repo).read(repo / "deploy", 1 << 20)


def test_variants_of_env_count_by_name_and_samples_do_not() -> None:
    names = (".env", ".env.local", ".ENV.", ".env.example", "env", ".environment")
    assert [*filter(is_credential_name, names)] == [".env", ".env.local", ".ENV."]
