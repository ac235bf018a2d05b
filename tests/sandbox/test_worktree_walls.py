"""A session in a worktree of nexus: the worktree is its project, and everything beside it stays hidden."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sandbox.scene import GROUNDS, IDENTITY, Ground, Scene, in_user, open_scene

from nexus_cli.config.paths import Places
from nexus_cli.config.protected_places import SecretPlaces
from nexus_cli.config.worktree_record import WorktreeRecord, find_worktree, worktrees_of
from nexus_cli.permission.permission import Denial, Grant, decide
from nexus_cli.tools.registry import discover_tools

each_ground = pytest.mark.parametrize(
    "ground", [one for one in GROUNDS if one.abi in (0, 1, 7)], ids=lambda ground: ground.name, indirect=True
)

GIT = "git " + " ".join(IDENTITY)
MINE, SECRETS = "mine", ("ledger.db", "keys/OPENAI_API_KEY", "history")


def make_data(own: Places, project: Path) -> tuple[Path, Path]:
    """Fill the data folder; return two worktrees without git."""
    for name in SECRETS:
        (own.data / name).parent.mkdir(parents=True, exist_ok=True)
        (own.data / name).write_text("SECRET")
    made = []
    for name in (MINE, "other"):
        folder = Path(os.path.realpath(worktrees_of(project, own))) / name
        folder.mkdir(parents=True)
        record = WorktreeRecord(name, folder, project, project / ".git", "b", "c", "d", "d")
        record.save()
        (record.home / "lock").write_text("SECRET")
        (folder / "secret").write_text("SECRET")
        made.append(folder)
    return made[0], made[1]


def open_worktree(scene: Scene) -> tuple[Path, Path]:
    mine, other = make_data(scene.own, scene.project)
    (mine / "secret").unlink()
    scene.git("worktree", "add", "-q", "--force", str(mine))
    (mine / "sub").mkdir()
    (mine / "AGENTS.md").write_text("Be careful.\n")
    return mine, other


@each_ground
def test_commands_work_in_their_worktree_and_see_nothing_beside_it(ground: Ground) -> None:
    def act() -> dict[str, object]:
        with open_scene(ground) as scene:
            mine, other = open_worktree(scene)
            home = find_worktree(mine, scene.own)
            assert home is not None
            hidden = [
                *(scene.own.data / name for name in SECRETS),
                other / "secret",
                home.home / "lock",
                other.parent / ".other/lock",
            ]
            looks = "; ".join(f"cat '{path}'" for path in hidden)
            writes = "; ".join(f"(echo x > '{path}/new'; echo x >> '{path}/secret')" for path in (other, mine.parent))
            words = (
                f"echo made > sub/made && cat tracked && {GIT} add sub && {GIT} commit -qm x && "
                "git log --oneline | wc -l;"
                f"{looks}; {writes}; echo x > .git; echo x > AGENTS.md; cat '{home.home}/record.json' | head -c 1"
            )
            wide = scene.profile("write", project=mine, cwd=mine / "sub")
            text = scene.text(f"cd '{mine}'; {words}", wide)
            plain = scene.text(
                f"cat '{mine}/tracked' '{mine}/sub/made'; echo x > '{mine}/sub/no'", scene.profile("read", project=mine)
            )
            outside = scene.text(f"cat '{mine}/tracked'", scene.profile())
            return {
                "text": text,
                "plain": plain,
                "outside": outside,
                "made": (mine / "sub/made").exists(),
                "no": (mine / "sub/no").exists(),
                "git": (mine / ".git").read_text()[:7],
                "rules": (mine / "AGENTS.md").read_text(),
                "other": sorted(os.listdir(other)),
                "beside": (mine.parent / "new").exists(),
            }

    seen = in_user(ground.user, act)
    assert "SECRET" not in str(seen)
    assert "1\n2\n" in str(seen["text"]) and str(seen["text"]).rstrip().endswith("{"), seen["text"]
    assert str(seen["plain"]).startswith("1\nmade\n") and not seen["no"] and seen["made"]
    assert not str(seen["outside"]).startswith("1\n")
    assert (seen["git"], seen["rules"], seen["other"], seen["beside"]) == (
        "gitdir:",
        "Be careful.\n",
        ["secret"],
        False,
    )


@each_ground
def test_what_a_rule_denies_in_a_worktree_stays_hidden(ground: Ground) -> None:
    def act() -> list[str]:
        with open_scene(ground) as scene:
            mine, _ = open_worktree(scene)
            (mine / "sub/private").write_text("SECRET")
            (mine / "sub/plain").write_text("plain\n")
            words = f"cat '{mine}/sub/plain' '{mine}/sub/private'"
            denied = (mine / "sub/private",)
            names = ("read", "write")
            profiles = [scene.profile(name, project=mine, denied=denied) for name in names]  # type: ignore[arg-type]
            return [scene.text(words, one) for one in profiles]

    seen = in_user(ground.user, act)
    assert all(text.startswith("plain\n") and "SECRET" not in text for text in seen), seen


def test_file_tools_reach_the_worktree_and_nothing_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXUS_HOME", str(tmp_path / "nexus"))
    own = Places(*(tmp_path / "nexus" / name for name in ("config", "data", "cache", "log")))
    mine, other = make_data(own, tmp_path / "project")
    for path, is_open in {
        mine / "secret": True,
        mine / "sub/new": True,
        other / "secret": False,
        own.ledger: False,
        own.data / "history": False,
        own.data / "trust.json": False,
        mine.parent / f".{MINE}/record.json": False,
        own.keys / "x": False,
    }.items():
        for name in ("read_file", "edit_file"):
            verdict = decide(
                discover_tools()[name],
                {"path": str(path), "edits": []},
                allow="edit",
                cwd=mine,
                project=mine,
                config_dirs=(own.config,),
            )
            assert isinstance(verdict, Grant if is_open else Denial), (name, path, verdict)
    assert SecretPlaces(own, tmp_path / "project").find(mine / "secret") is not None
    assert not SecretPlaces(own, mine).are_below(mine)
