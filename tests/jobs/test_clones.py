"""The job: "let Mira go on with what I began", two people with clones of one repository at two places.

Ana has asked about the till, has kept a fact and has an agent in a space. She shares the project; Mira finds all of it
in her own clone, goes on with Ana's session there, and shares hers. Later Mira ends it.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ledger.postgres import Server
from program.stage import PRICED, QUICK, Done, Stage, calls, stage
from program.terminal_run import TerminalRun

FACT = "The till closes at six"
GIT = ("git", "-c", "user.name=A", "-c", "user.email=a@example.org")


def colleague(body: Any) -> dict[str, Any]:
    """Answers from the facts that it is sent, and writes down what it is asked to."""
    newest = body["messages"][-1]
    sent = "\n".join(str(one.get("content") or "") for one in body["messages"])
    if newest["role"] == "tool":
        return {"text": "It is written down."}
    if "write it down" in str(newest["content"]):
        told = "at six" if "about the till" in sent else "unknown"
        return calls(("write_file", {"path": "till.txt", "content": f"{told}\n"}))
    found = re.findall(rf"(\w+: )?{FACT}", sent)
    return {"text": f"I know it from {found[-1] or 'you'}." if found else "I do not know."}


class Clones:
    """Ana and Mira with homes, roles and clones of their own."""

    def __init__(self, place: Stage, server: Server) -> None:
        server.make_roles()
        self.place, self.url = place, server.new_database()
        name = self.url.partition("?")[0].rpartition("/")[2]
        self.folders = {"ana": place.folder, "mira": place.home.parent / "srv" / "shop"}
        self._git(place.folder, "init", "-q")
        self._git(place.folder, "commit", "-q", "--allow-empty", "-m", "first")
        self._git(place.home, "clone", "-q", str(place.folder), str(self.folders["mira"]))
        self._git(place.folder, "remote", "add", "origin", "git@github.com:acme/shop.git")
        self._git(self.folders["mira"], "remote", "set-url", "origin", "https://github.com/acme/shop")
        for role in self.folders:
            config = place.home / role / "config" / "config.toml"
            config.parent.mkdir(parents=True)
            config.write_text(f'{QUICK}{PRICED}[ledger]\nurl = "{server.url(name, role)}"\n')

    def _git(self, folder: Path, *arguments: str) -> None:
        subprocess.run([*GIT, *arguments], cwd=folder, check=True, capture_output=True)

    def env(self, who: str) -> dict[str, str]:
        return {**self.place.environment, "NEXUS_HOME": str(self.place.home / who), "TERM": "dumb"}

    def open(self, who: str) -> TerminalRun:
        """The REPL in somebody's clone."""
        return TerminalRun(env=self.env(who), cwd=self.folders[who])

    def run(self, who: str, *arguments: str) -> Done:
        done = self.place.run(*arguments, env=dict(self.env(who)), cwd=self.folders[who])
        assert done.status == 0, (arguments, done)
        return done

    def sessions(self, who: str) -> list[tuple[str, str, str]]:
        """Maker, id and first words of the conversations that somebody is listed."""
        rows = self.run(who, "sessions", "list", "--json").result["sessions"]
        return [(one["person"], one["id"], one["first_text"]) for one in rows]

    def agents_of_runs(self, who: str) -> list[str]:
        return [one["agent"] for one in self.run(who, "runs", "list", "--json").result["runs"]]


@pytest.fixture
def team(postgres: Server, tmp_path: Path) -> Iterator[Clones]:
    with stage(tmp_path, colleague) as place:
        made = Clones(place, postgres)
        yield made
        postgres.drop(made.url)


def test_two_people_with_clones_of_one_repository(team: Clones) -> None:
    with team.open("ana") as repl:
        repl.send("What do you know about the till?\r")
        repl.expect("I do not know")
        repl.send("/exit\r")
        repl.finish()
    team.run("ana", "memory", "add", FACT)
    team.run("ana", "space", "create", "counter", "--agent", "Clerk")
    team.run("ana", "space", "post", "counter", "@Clerk hello")
    ((who, begun, _),) = team.sessions("ana")
    assert who == "ana"
    assert "I do not know" in team.run("mira", "ask", "When does the till close?").text
    assert team.sessions("mira") == [] and team.agents_of_runs("mira") == []

    told = team.run("ana", "ledger", "share", ".", "mira").stderr.decode()
    assert "mira can now see your sessions of github.com/acme/shop#" in told, told
    assert "nexus ledger share . ana" in told, "what Mira has to do"

    assert "I know it from ana: ." in team.run("mira", "ask", "When does the till close?").text
    assert team.sessions("mira") == [("ana", begun, "What do you know about the till?")]
    assert begun in {one["session"] for one in team.run("mira", "sessions", "search", "till", "--json").result["hits"]}
    assert team.agents_of_runs("mira") == ["Clerk"]
    team.run("mira", "ask", "write it down", "-r", begun, "--allow", "edit")
    assert (team.folders["mira"] / "till.txt").read_text() == "at six\n"
    assert not (team.folders["ana"] / "till.txt").exists()
    assert "write it down" in team.run("ana", "sessions", "show", begun).text

    hits = team.run("ana", "sessions", "search", "When does the till", "--json").result["hits"]
    assert hits == [], "Mira has not shared hers"
    told = team.run("mira", "ledger", "share", ".", "ana").stderr.decode()
    assert "ana and you can now see each other's sessions" in told, told
    assert len(team.run("ana", "sessions", "search", "When does the till", "--json").result["hits"]) == 2
    team.run("mira", "ledger", "unshare", ".", "ana")
    assert team.sessions("mira") == [] and team.agents_of_runs("mira") == []
    assert team.run("ana", "sessions", "search", "When does the till", "--json").result["hits"] == []
