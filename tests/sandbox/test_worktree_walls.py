"""A session in a worktree of nexus: the worktree is its project, and everything beside it stays hidden."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from sandbox.scene import GROUNDS, IDENTITY, Ground, Scene, in_user, open_scene
from search import sample

from nexus_cli.config.paths import Places
from nexus_cli.config.project_settings import load_settings_in
from nexus_cli.config.protected_places import SecretPlaces
from nexus_cli.config.worktree_record import WorktreeRecord, find_worktree, worktrees_of
from nexus_cli.permission.permission import decide
from nexus_cli.tools.registry import discover_tools
from nexus_cli.worktrees.worktrees import enter_worktree

each_ground = pytest.mark.parametrize(
    "ground", sample([one for one in GROUNDS if one.abi in (0, 1, 7)], 3), ids=lambda ground: ground.name, indirect=True
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


@pytest.mark.matrix
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


@pytest.mark.matrix
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


@pytest.mark.matrix
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
            assert verdict.verdict == ("allow" if is_open else "deny"), (name, path, verdict)
    assert SecretPlaces(own, tmp_path / "project").find(mine / "secret") is not None
    assert not SecretPlaces(own, mine).are_below(mine)


ATTACKS = """
git stash drop; git stash clear; git --git-dir=$P/.git --work-tree=. stash drop; git -C $P stash clear
git --git-dir=$P/.git branch -D feature; git -C $P branch -D feature; git branch -D feature
git tag evil; git -C $P tag evil; git --git-dir=$P/.git update-ref refs/heads/feature HEAD~1
git update-ref -d refs/heads/feature; git push -q $P HEAD:refs/heads/evil; git push -q $P :feature
git pack-refs --all --prune; git -C $P pack-refs --all; git -C $P gc -q --prune=now; git gc -q --prune=now
git -C $P reset -q --hard HEAD~1; git -C $P checkout -q feature; git -C $P commit -qm evil --allow-empty
git -C $P config user.name evil; git -C $P worktree add -q $P/evil; git --git-dir=$P/.git fetch -q . main:evil
rm -f $P/.git/index; rm -f $P/.git/packed-refs; echo x > $P/.git/packed-refs; echo x > $P/.git/HEAD
echo x > $P/.git/index; echo x > $P/.git/refs/heads/feature; rm -rf $P/.git/refs; rm -rf $P/.git/logs
rm -rf $P/.git/objects; echo x > $P/.git/objects/x; mv $P/.git $P/.gone; chmod -R 777 $P/.git; rm -rf $P/.git
ln -sf $P/.git/refs .git/refs2; rm -rf .git/refs2/heads; rm .git/refs2; echo x > $P/.git/hooks/pre-commit
rm -rf .git/hooks; mkdir .git/hooks; echo x > .git/hooks/pre-commit; echo '[alias]' >> .git/config
"""
"""What a command in a worktree tries against the repository of the project `$P`."""


def read_git(folder: Path, ground: Ground) -> dict[str, tuple[int, bytes]]:
    """Every file of a git folder; its mode too, unless it is known that Landlock lets modes be changed."""
    found = {}
    for path in sorted(folder.rglob("*")):
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path.relative_to(folder))] = (0 if ground.abi else path.lstat().st_mode, data)
    return found


@pytest.mark.matrix
@each_ground
def test_from_a_worktree_only_its_own_repository_is_written(ground: Ground) -> None:
    def act() -> dict[str, object]:
        with open_scene(ground) as scene:
            os.environ |= {"NEXUS_HOME": str(scene.base / "nexus"), "HOME": str(scene.home)}
            scene.git("branch", "feature")
            (scene.project / "tracked").write_text("of the person\n")
            scene.git("stash", "-q")
            (scene.project / "tracked").write_text("2\n")
            scene.git("commit", "-qam", "second")
            (scene.project / "tracked").write_text("staged\n")
            scene.git("add", "tracked")
            stay = enter_worktree(scene.project, "fix")
            mine = stay.record.folder
            before = read_git(scene.project / ".git", ground)
            wide = scene.profile("write", project=mine)
            work = (
                f"cd '{mine}'; {GIT} commit -qam work && echo more >> tracked && {GIT} stash -q && "
                f"git stash list | wc -l && git stash pop -q && {GIT} commit -qam more && "
                f"{GIT} rebase -q --force-rebase HEAD~2 && git tag mine && git switch -qc side && git switch -q - && "
                "git log --oneline main.. | wc -l"
            )
            text = scene.text(work, wide)
            attacks = [f"cd '{mine}'; P='{scene.project}'; {line}" for line in ATTACKS.strip().splitlines()]
            for line in attacks:
                scene.text(line, wide)
            after = read_git(scene.project / ".git", ground)
            plain = scene.text(
                f"cd '{mine}'; git log --oneline -1; git diff --stat main", scene.profile("read", project=mine)
            )
            told = stay.leave()
            return {
                "text": text,
                "changed": sorted(name for name in {*before, *after} if before.get(name) != after.get(name)),
                "plain": plain,
                "told": told,
                "own": (mine / ".git/hooks").is_symlink() and "alias" not in (mine / ".git/config").read_text(),
                "stash": scene.git("stash", "list").count("\n"),
                "refs": scene.git("for-each-ref", "--format=%(refname)").split(),
                "log": scene.git("log", "--format=%s", "main..worktree-fix").split(),
                "whole": scene.git("fsck", "--strict", "--connectivity-only"),
            }

    load_settings_in(Path("/"))  # a stranger cannot import what this loads
    seen = in_user(ground.user, act)
    assert str(seen["text"]).split() == ["1", "2"], seen["text"]
    assert seen["own"], "hooks and settings of its repository are guarded as those of a project"
    assert seen["changed"] == [] and seen["stash"] == 1, seen
    assert "more" in str(seen["plain"]) and "tracked" in str(seen["plain"]), seen["plain"]
    assert "2 commits" in str(seen["told"]) and seen["log"] == ["more", "work"], seen
    names = [name for name in seen["refs"] if not name.startswith("refs/nexus/")]  # type: ignore[attr-defined]
    assert names == ["refs/heads/feature", "refs/heads/main", "refs/heads/worktree-fix", "refs/stash"], names


LEADS = """
mkdir -p .git/logs/refs/heads; ln -sfn $OUT/file .git/logs/refs/heads/main
cp -r .git/refs/heads kept; rm -rf .git/refs/heads; ln -sfn $OUT .git/refs/heads
ln -sfn $OUT/file .git/packed-refs; ln -sfn $OUT/new .git/packed-refs.lock
rm -rf .git/objects/pack; ln -sfn $OUT .git/objects/pack
"""
"""What a command in a worktree leaves in its repository for git without a sandbox; `$OUT` is outside."""


@pytest.mark.matrix
@each_ground
def test_git_outside_the_sandbox_follows_nothing_that_a_command_left_in_a_repository(ground: Ground) -> None:
    def act() -> list[dict[str, object]]:
        seen = []
        with open_scene(ground) as scene:
            os.environ |= {"NEXUS_HOME": str(scene.base / "nexus"), "HOME": str(scene.home)}
            out = scene.home / "out"
            out.mkdir()
            (out / "file").write_text("mine\n")
            for number, line in enumerate(LEADS.strip().splitlines()):
                stay = enter_worktree(scene.project, f"fix-{number}")
                mine = stay.record.folder
                text = scene.text(
                    f"cd '{mine}'; OUT='{out}'; {line}; echo made > made", scene.profile("write", project=mine)
                )
                stay.end()
                scene.git("commit", "-q", "--allow-empty", "-m", "later")
                before = scene.git("for-each-ref")
                told = enter_worktree(scene.project, f"fix-{number}").leave()
                seen.append(
                    {
                        "text": text,
                        "told": told,
                        "same": scene.git("for-each-ref") == before,
                        "out": [(path.name, path.read_text()) for path in out.iterdir()],
                    }
                )
        return seen

    load_settings_in(Path("/"))  # a stranger cannot import what this loads
    for one in in_user(ground.user, act):
        assert "points elsewhere" in str(one["told"]) and one["same"] and one["out"] == [("file", "mine\n")], one
