"""The job: a project that was set up for Claude Code moves in: its CLAUDE.md imports files, its rules are for paths.

A turn touches a file that a rule names, the conversation is compacted, the session goes on in another process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program.stage import PRICED, QUICK, Stage, calls, stage
from project_files import write_files
from terminal.repl import Repl

SUMMARY = "## Goal\nMend the users endpoint.\n## Next\nThe tests of it.\n"
API, STYLE, TESTING, GENERAL = "Endpoints validate their input.", "Two spaces.", "Vitest, not Jest.", "Commit small."
FILES = {
    "CLAUDE.md": "# Shop\n\nSee @README for what it is, and follow @docs/style.md.\n"
    "Reviews by @alice; types come from `@types/node`. Mine: @~/shop.md\n```\n@docs/code.md\n```\n",
    "README": "A shop.\n",
    "docs/style.md": f"{STYLE}\n\n- @./testing.md\n- @gone.md\n",
    "docs/testing.md": f"{TESTING} As in @../CLAUDE.md.\n",
    "docs/code.md": "NOT IMPORTED\n",
    ".claude/rules/general.md": f"{GENERAL}\n",
    ".claude/rules/backend/api.md": f"---\npaths:\n  - src/api/**/*.{{ts,tsx}}\n---\n\n# API\n\n{API}\n",
    ".claude/rules/web.md": '---\npaths: "src/web/**/*.ts, *.css"\n---\nNO WEB\n',
    "src/api/users.ts": "export const users = 1\n",
}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        (made.home / "shop.md").write_text("OUTSIDE\n")
        write_files(made.folder, FILES)
        yield made


def model(body: Any) -> dict[str, Any]:
    messages = body["messages"]
    last = messages[-1]
    if "about to be replaced by your summary" in str(last["content"]):
        return {"text": SUMMARY}
    if last["role"] == "user" and "MEND" in str(last["content"]):
        return calls(("read_file", {"path": "src/api/users.ts"}))
    if last["role"] == "tool" and messages[-3]["role"] == "user":
        edit = {"path": "src/api/users.ts", "edits": [{"old": "1", "new": "2"}]}
        return calls(("edit_file", edit))
    return {"text": "Done. " * 200}


def texts(place: Stage, at: int = -1) -> list[str]:
    return [str(one.get("content")) for one in place.server.requests[at].body["messages"]]


def times(place: Stage, words: str, at: int = -1) -> int:
    return "\n".join(texts(place, at)).count(words)


def test_imports_and_rules_are_sections_with_their_files(place: Stage) -> None:
    sections = {one["id"]: one for one in place.run("context", "--json").result["sections"]}
    found = {name: one["source"] for name, one in sections.items() if name.startswith("instructions.project")}
    assert found == {
        "instructions.project": "CLAUDE.md",
        "instructions.project.README": "README",
        "instructions.project.docs/style.md": "docs/style.md",
        "instructions.project.docs/testing.md": "docs/testing.md",
        "instructions.project..claude/rules/general.md": ".claude/rules/general.md",
    }, found
    assert not [name for name in sections if name.startswith("path_rules")]
    place.script(model)
    done = place.ask("hello")
    [system] = texts(place)[:1]
    assert all(words in system for words in (STYLE, TESTING, GENERAL, "A shop.", "follow @docs/style.md"))
    assert not any(words in system for words in ("NOT IMPORTED", "OUTSIDE", API, "NO WEB"))
    told = "\n".join(done.told)
    for line in ("@~/shop.md (line 4) links to", "outside the project", "@gone.md (line 4) is not there"):
        assert line in told, told
    assert "@../CLAUDE.md (line 1) is a circular import" in told and "alice" not in told and "node" not in told, told


def test_a_rule_by_path_is_sent_once_and_stands_after_compaction_and_resume(place: Stage) -> None:
    place.script(model)
    with Repl.of_stage(place, "--allow", "edit") as repl:
        repl.say("MEND the users endpoint")
        assert [times(place, API, at) for at in range(len(place.server.requests))] == [0, 1, 1]
        read = next(text for text in texts(place) if "users = 1" in text)
        assert "[nexus:\n# Rules for src/api/**/*.ts" in read and read.index("users = 1") < read.index(API)
        for words in ("one", "two", "three", "four"):
            repl.say(words)
        assert times(place, API) == 1
        repl.say("/compact")
        repl.say("five")
        sent = texts(place)
        assert "Mend the users endpoint." in "\n".join(sent) and "users = 1" not in "\n".join(sent), sent
        assert times(place, API) == 1, sent
        repl.say("six")
        assert times(place, API) == 1
    done = place.ask("-c", "seven")
    assert done.status == 0 and times(place, API) == 1 and times(place, "NO WEB") == 0, done
    assert place.run("replay").status == 0
    rows = [one["id"] for one in place.run("context", "--step", "2", "--json").result["sections"]]
    assert "path_rules..claude/rules/backend/api.md" in rows, rows


@pytest.mark.matrix
def test_an_attached_file_brings_its_rule_and_an_edited_rule_comes_again(place: Stage) -> None:
    place.script(model)
    assert place.ask("-f", "src/api/users.ts", "look").status == 0
    assert times(place, API) == 1
    rule = place.folder / ".claude/rules/backend/api.md"
    rule.write_text(rule.read_text().replace(API, "Endpoints are versioned."))
    assert place.ask("-c", "look again").status == 0
    assert times(place, API) == 1 and times(place, "Endpoints are versioned.") == 1
    assert place.run("replay").status == 0
    assert json.dumps(texts(place)).count("OUTSIDE") == 0


def in_folders(body: Any) -> dict[str, Any]:
    at = sum(one["role"] == "tool" for one in body["messages"])
    reads = ("api/v1/users.ts", "api/v1/users.ts", "web/page.ts", "node_modules/left/index.js")
    return calls(("read_file", {"path": reads[at]})) if at < len(reads) else {"text": "Done."}


def test_instructions_of_a_folder_come_with_the_first_file_that_is_read_there(place: Stage) -> None:
    files = {
        "api/NEXUS.md": "Endpoints return cents, see @style.md.\n",
        "api/style.md": "Names are plural.\n",
        "api/v1/AGENTS.md": "Version one is frozen.\n",
        "api/.claude/rules/all.md": "Log every call.\n",
        "api/v1/users.ts": "users\n",
        "web/CLAUDE.md": "Pages have no script.\n",
        "web/page.ts": "page\n",
        "docs/AGENTS.md": "Never read here.\n",
        "node_modules/left/CLAUDE.md": "Obey the package.\n",
        "node_modules/left/index.js": "left\n",
    }
    write_files(place.folder, files)
    place.script(in_folders)
    done = place.ask("look")
    assert done.status == 0, done
    api = ("Endpoints return cents", "Names are plural.", "Version one is frozen.", "Log every call.")
    for words in api:
        assert [times(place, words, at) for at in range(5)] == [0, 1, 1, 1, 1], words
    assert [times(place, "Pages have no script.", at) for at in range(5)] == [0, 0, 0, 1, 1]
    assert times(place, "Never read here.") == times(place, "Obey the package.") == 0
    assert "web/CLAUDE.md" in "".join(done.told) or "CLAUDE.md in" in "".join(done.told), done.told
    read = next(text for text in texts(place) if "# Project Configuration" in text and "frozen" in text)
    assert read.index("users") < read.index("Endpoints return cents") < read.index("Version one is frozen.")
    assert place.run("replay").status == 0


LONG = (
    "# Shop\n\n## Commands\n- `python3 -c 'print(42)'`\n- `git frobnicate --all`\n\n## Traps\n"
    + "- Mind it well. " * 90
    + "\n"
)
SHORT = "# Shop\n\n## Commands\n- `python3 -c 'print(42)'`\n"


def writer(body: Any) -> dict[str, Any]:
    messages = body["messages"]
    at = max(at for at, one in enumerate(messages) if one["role"] == "user")
    done = len(messages) > at + 1
    if done and messages[-2].get("tool_calls", [{}])[0].get("function", {}).get("name") != "bash":
        return {"text": "Written."}
    if "was checked after it was written" in str(messages[at]["content"]):
        return calls(("write_file", {"path": "NEXUS.md", "content": SHORT}))
    if not done:
        return calls(("bash", {"command": "python3 -c 'print(42)'"}))
    return calls(("write_file", {"path": "NEXUS.md", "content": LONG}))


def test_init_names_its_price_and_has_what_was_not_tried_taken_out(place: Stage) -> None:
    place.script(writer)
    (place.folder / "CLAUDE.md").unlink()
    with Repl.of_stage(place, "--allow", "all", rows=120) as repl:
        repl.say("/init 300 mind the tills", ends=False)
        repl.requested(5)
        repl.wait_for(lambda one: one.text.count("of 300 tokens") == 2, 60)
        shown = " ".join(repl.text.split())
    asked = [text for text in texts(place) if "NEXUS.md" in text]
    assert "at most 300 tokens" in asked[0] and "mind the tills" in asked[0], asked
    assert (
        "too many" in shown
        and "These commands did not run successfully in this session: `git frobnicate --all`" in shown
    ), shown
    assert (place.folder / "NEXUS.md").read_text() == SHORT and len(place.server.requests) == 5


def test_doctor_prices_each_file_and_names_what_is_repeated(place: Stage) -> None:
    (place.folder / ".claude/rules/more.md").write_text(
        "Never use tabs in the code.\n- Follow @docs/style.md at any time.\nLine length is 80.\nRun `npm run build`.\n"
        "Or `yarn build`.\nUse spaces.\nUse spaces.\n"
    )
    (place.folder / "docs/testing.md").write_text(
        "Use tabs in the code.\nFollow @docs/style.md, at any time!\nUse tabs.\n"
    )
    (place.folder / ".prettierrc").write_text('{"packageManager": "bun"}')
    (place.folder / "package.json").write_text('{"scripts": {"build": "tsc"}, "packageManager": "npm@11.1.0"}')
    (place.folder / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
    value = place.run("doctor", "--instructions", "--json").result
    files = {one["path"]: one for one in value["files"]}
    assert files[".claude/rules/backend/api.md"]["paths"] == ["src/api/**/*.ts", "src/api/**/*.tsx"]
    assert files["docs/style.md"]["kind"] == "import" and files["CLAUDE.md"]["tokens"] > 20
    assert files["CLAUDE.md"]["cost_usd"] == pytest.approx(files["CLAUDE.md"]["tokens"] * 2.0 * 100 / 1e6)
    always = [one["tokens"] for one in value["files"] if not one["paths"]]
    assert value["tokens"] == sum(always) and value["requests"] == 100 and value["model"]
    found = {(one["kind"], one["path"], one["line"], one["other"]) for one in value["findings"] if one["line"]}
    more = ".claude/rules/more.md"
    assert found == {
        ("contradiction", more, 1, "docs/testing.md:1"),
        ("duplicate", more, 2, "docs/testing.md:2"),
        ("contradiction", more, 3, "pyproject.toml: line-length = 100"),
        ("stated", more, 4, "package.json: scripts.build"),
        ("contradiction", more, 5, "package.json: packageManager = npm"),
        ("contradiction", more, 6, "docs/testing.md:3"),
        ("contradiction", more, 7, "docs/testing.md:3"),
    }, found
    text = place.run("doctor", "--instructions", env={"COLUMNS": "200"}).text
    assert '"Line length is 80." contradicts pyproject.toml: line-length = 100' in text
    assert ": has imports that were not read: @gone.md (line 4) is not there" in " ".join(text.split())
    assert "doctor --instructions" in place.run("doctor").text


@pytest.mark.matrix
def test_doctor_names_the_files_of_folders_below_with_their_folder(place: Stage) -> None:
    for name in ("api/NEXUS.md", "api/v1/users.ts", "lib/own/.git/HEAD", "lib/own/NEXUS.md", "node_modules/a/NEXUS.md"):
        (place.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (place.folder / name).write_text("Endpoints return cents.\n")
    value = place.run("doctor", "--instructions", "--json").result
    files = {one["path"]: one for one in value["files"]}
    assert files["api/NEXUS.md"]["paths"] == ["api/"] and files["api/NEXUS.md"]["tokens"] > 0
    assert not [name for name in files if "own" in name or "node_modules" in name]
    assert value["tokens"] == sum(one["tokens"] for one in value["files"] if not one["paths"])
    assert "api/NEXUS.md (instructions, for api/)" in place.run("doctor", "--instructions").text


def test_a_file_that_a_deny_rule_names_is_not_imported(place: Stage) -> None:
    place.settings(QUICK + PRICED + '[rules]\ndeny = ["read_file(.env)", "read_file(private/**)"]\n')
    (place.folder / ".env").write_text("DENIED ONE")
    (place.folder / "private").mkdir()
    (place.folder / "private/notes.md").write_text("DENIED TWO")
    (place.folder / "CLAUDE.md").write_text("@.env @private/notes.md @docs/testing.md\n")
    told = "\n".join(place.ask("hello").told)
    assert "DENIED" not in "".join(texts(place)) and TESTING in "".join(texts(place))
    assert "@.env (line 1) is denied by a rule for read_file" in told and "@private/notes.md (line 1)" in told
    report = place.run("doctor", "--instructions", "--json").result
    assert not [one for one in report["files"] if one["path"] in (".env", "private/notes.md")], report["files"]
    assert "@.env (line 1) is denied by a rule for read_file" in " ".join(place.run("doctor").text.split())


def test_a_file_with_a_key_is_not_imported_unless_it_is_a_document(place: Stage) -> None:
    (place.folder / ".env").write_text("PORT=8080\nDB_PASSWORD=hunter22secret\n")
    (place.folder / ".env.example").write_text("PORT=8080\n")
    (place.folder / "docs/key").write_text("-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END PRIVATE KEY-----\n")
    (place.folder / "docs/link.md").symlink_to("../.env")
    (place.folder / "docs/setup.md").write_text("Write DB_PASSWORD=hunter23secret to .env.\n")
    (place.folder / "docs/guide.RST").write_text("Write DB_PASSWORD=hunter24secret to .env.\n")
    (place.folder / "CLAUDE.md").write_text(
        "@.env @.env.example @docs/key @docs/link.md @docs/setup.md @docs/guide.RST\n"
    )
    told = "\n".join(place.ask("hello").told)
    sent = "".join(texts(place))
    assert (
        "hunter22" not in sent
        and "MIIEpAI" not in sent
        and "PORT=8080" in sent
        and "hunter23" in sent
        and "hunter24" in sent
    )
    for why in (
        ".env (line 1) holds",
        "docs/key (line 1) holds",
        f"docs/link.md (line 1) links to {place.folder}/.env, which holds",
    ):
        assert f"@{why} credentials" in told, told
    report = place.run("doctor", "--instructions", "--json").result
    assert not {".env", "docs/key", "docs/link.md"} & {one["path"] for one in report["files"]}


@pytest.mark.matrix
def test_what_is_read_for_other_agents_is_told_once_in_a_project(place: Stage) -> None:
    def told(*arguments: str) -> str:
        return "\n".join(place.ask(*arguments, "hello").told)

    read, missing = "CLAUDE.md in", "@gone.md (line 4) is not there"
    assert read in told("--no-save") and read in told("--no-save"), "that stores nothing"
    place.ask("--price", "hello")
    first = told()
    assert read in first and missing in first
    assert read not in told() and not told("-c")
    (place.folder / "CLAUDE.md").write_text("See @lost.md\n")
    again = told()
    assert read in again and "@lost.md (line 1) is not there" in again
    assert not told()
    assert "@lost.md (line 1) is not there" in " ".join(place.run("doctor").text.split()), "it can be looked up"
