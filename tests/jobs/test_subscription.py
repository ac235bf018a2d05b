"""The job: no API key, but a subscription: sign in once on a web page, and work for a day with it."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from jobs.device_server import GITHUB_TOKEN, DeviceServer, device_server
from program.stage import QUICK, Done, Stage, calls, end, stage, together, until
from search import sample
from server.play import closed_port

COPILOT, CHATGPT = "github_copilot/gpt-4.1", "chatgpt/gpt-5.4"


@dataclass
class Person:
    """A stage with the servers of both providers."""

    place: Stage
    device: DeviceServer
    env: dict[str, str] = field(default_factory=dict)

    def run(self, *words: str, **more: Any) -> Done:
        return self.place.run(*words, env={**self.env, **more.pop("env", {})}, **more)

    def ask(self, *words: str, model: str = COPILOT, **more: Any) -> Done:
        return self.run("ask", *words, "-m", model, **more)

    def sign_in(self, name: str = "github-copilot") -> Done:
        return self.run("login", name, bug=self.device.chatgpt if name == "chatgpt" else "")

    def stored(self, name: str) -> Path:
        return self.place.nexus_home / "data" / "keys" / name

    @property
    def copilot(self) -> Path:
        return self.stored("GITHUB_COPILOT_LOGIN")

    def age(self, path: Path) -> None:
        """Let the short-lived token of the stored login end."""
        path.write_text(json.dumps(json.loads(path.read_text()) | {"expires_at": 1}))

    def secrets(self) -> list[str]:
        """Every token that the servers gave out and that is stored."""
        kept = [json.loads(path.read_text()) for path in self.copilot.parent.iterdir() if not path.name.startswith(".")]
        return [str(login[name]) for login in kept for name in ("access_token", "refresh_token") if login.get(name)]


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    with stage(tmp_path) as place, device_server() as device:
        place.settings(QUICK)
        place.script(lambda body: {"text": "Done."})
        for name in ("OPENAI_API_KEY", "NEXUS_MODEL"):
            place.environment.pop(name, None)
        device.models = place.server.base("chat")
        yield Person(place, device, device.environment)


def test_a_person_signs_in_asks_and_signs_out(person: Person) -> None:
    person.device.answers = ["authorization_pending", "authorization_pending"]
    done = person.sign_in()
    told = " ".join(done.told)
    assert done.status == 0 and "https://github.com/login/device" in told and "ABCD-1234" in told
    assert len(person.device.seen("/access_token")) == 3
    assert person.copilot.stat().st_mode & 0o777 == 0o600 and str(person.copilot) in done.text
    asked = person.ask("hi", "--json")
    assert asked.status == 0 and asked.result["text"] == "Done." and asked.result["usage"]["cost_usd"] is None
    sent = person.place.server.requests[-1]
    assert sent.headers["authorization"] == f"Bearer {json.loads(person.copilot.read_text())['token']}"
    assert sent.body["messages"][0]["role"] == "system" and GITHUB_TOKEN not in sent.headers.values()
    assert len(person.device.seen("/token")) == 1, "the token of the login is used until it ends"
    assert not (person.place.home / ".config").exists(), "litellm keeps no folder of its own"
    assert person.run("logout", "github-copilot").status == 0 and not person.copilot.exists()
    gone = person.ask("hi")
    assert gone.status == 2 and "nexus login github-copilot" in " ".join(gone.told)
    for one in (done, asked, gone):
        assert GITHUB_TOKEN.encode() not in one.stdout + one.stderr


def test_chatgpt_is_asked_through_its_own_interface(person: Person) -> None:
    person.device.answers = ["403", "404"]
    done = person.sign_in("chatgpt")
    assert done.status == 0 and "WXYZ-9876" in " ".join(done.told), done
    base = {"CHATGPT_API_BASE": person.device.url}
    asked = person.ask("hi", "--json", model=CHATGPT, env=base, bug=person.device.chatgpt)
    assert asked.status == 0 and asked.result["text"] == "Hello." and asked.result["usage"]["cost_usd"] is None, asked
    headers, body = person.device.seen("/responses")[-1]
    login = person.stored("CHATGPT_LOGIN")
    assert headers["authorization"] == f"Bearer {json.loads(login.read_text())['access_token']}"
    assert headers["chatgpt-account-id"] == "acc-1" and body["stream"] and not body["store"]
    person.age(login)
    former = json.loads(login.read_text())["refresh_token"]
    asked = person.ask("hi", model=CHATGPT, env=base, bug=person.device.chatgpt)
    renewed = json.loads(login.read_text())
    assert asked.status == 0 and person.device.seen("/oauth/token")[-1][1]["refresh_token"] == former
    assert renewed["refresh_token"] != former and login.stat().st_mode & 0o777 == 0o600
    assert person.device.seen("/responses")[-1][0]["authorization"] == f"Bearer {renewed['access_token']}"
    person.age(login)
    person.device.refusal = 400
    refused = person.ask("hi", model=CHATGPT, env=base, bug=person.device.chatgpt)
    assert refused.status == 2 and "nexus login chatgpt" in " ".join(refused.told), refused
    assert not (person.place.home / ".config").exists()
    assert not any(secret.encode() in refused.stderr for secret in person.secrets())


def test_a_token_that_ends_in_mid_session_is_renewed_between_two_steps(person: Person) -> None:
    """The second of three steps finds the token ended."""
    person.sign_in()

    def answer(body: Any) -> Any:
        results = sum(message["role"] == "tool" for message in body["messages"])
        person.age(person.copilot) if results == 1 else None
        return calls(("bash", {"command": "env"})) if results < 2 else {"text": "Done."}

    person.place.script(answer)
    asked = person.ask("look", "--allow", "all")
    assert asked.status == 0 and asked.text == "Done.\n"
    by = [request.headers["x-initiator"] for request in person.place.server.requests]
    assert by == ["user", "agent", "agent"], "the plan counts what the person sends"
    bearers = [request.headers["authorization"] for request in person.place.server.requests]
    assert bearers[0] == bearers[1] != bearers[2] and len(person.device.seen("/token")) == 2
    results = person.place.results
    assert results and not any("tid=" in text or "LOGIN" in text or "TOKEN_DIR" in text for text in results)


def test_of_several_processes_one_renews_the_login(person: Person) -> None:
    person.sign_in()
    person.age(person.copilot)
    done = together(lambda n: person.ask(f"hi {n}"), range(3))
    assert [one.status for one in done] == [0, 0, 0] and len(person.device.seen("/token")) == 2


@pytest.mark.parametrize(("refusal", "word"), sample([(401, "expired"), (403, "no such subscription")], 2))
def test_a_login_that_is_no_longer_accepted_names_the_way_back(person: Person, refusal: int, word: str) -> None:
    person.sign_in()
    person.age(person.copilot)
    person.device.refusal = refusal
    done = person.ask("hi", "--json")
    assert done.status == 2 and done.kind == "auth" and word in done.result["error"]["message"]
    assert "nexus login github-copilot" in done.result["error"]["hint"] and not person.place.server.requests


@pytest.mark.parametrize("ending", sample(["access_denied", "expired_token"], 2))
@pytest.mark.parametrize("before", sample([[], ["authorization_pending"]], 2, 1))
def test_a_declined_login_is_one_line_and_stores_nothing(person: Person, ending: str, before: list[str]) -> None:
    person.device.answers = [*before, ending]
    done = person.sign_in()
    assert done.status == 2 and done.told[-1].startswith("nexus: no GitHub Copilot login: ") and not done.stdout
    assert "nexus login github-copilot" in done.told[-1] and not person.copilot.exists()


def test_offline_is_one_line_at_login_and_at_a_request(person: Person) -> None:
    person.sign_in()
    person.age(person.copilot)
    nowhere = {name: f"http://127.0.0.1:{closed_port()}/x" for name in person.env}
    for done in (person.run("login", "github-copilot", env=nowhere), person.ask("hi", env=nowhere)):
        assert done.status == 1 and "refused" in " ".join(done.told) and b"Traceback" not in done.stderr, done
    assert json.loads(person.copilot.read_text())["access_token"] == GITHUB_TOKEN, "the former login stays"


def test_ctrl_c_ends_a_login_that_waits(person: Person) -> None:
    person.device.answers = ["authorization_pending"] * 10_000
    child = person.place.begin("login", "github-copilot", env={**person.env})
    try:
        assert until(lambda: bool(person.device.seen("/access_token")))
        child.send_signal(signal.SIGINT)
        _, stderr = child.communicate(timeout=90)
    finally:
        end(child)
    assert child.returncode == 130 and b"Traceback" not in stderr and not person.copilot.exists()


READ_ONLY = """
from nexus_cli.config import file_lock, stored_keys
def refuse(*_):
    raise OSError(30, "Read-only file system")
stored_keys.replace_private_file, file_lock.FileLock.take = refuse, refuse
"""


@pytest.mark.matrix
def test_a_disk_that_cannot_be_written_refuses_a_login_and_keeps_one_working(person: Person) -> None:
    person.sign_in()
    person.age(person.copilot)
    person.place.script([calls(("bash", {"command": "true"})), {"text": "Done."}])
    asked = person.ask("hi", bug=READ_ONLY)
    assert asked.status == 0 and asked.text == "Done.\n"
    assert len(person.device.seen("/token")) == 2, "the process keeps the token for its second step"
    refused = person.run("login", "github-copilot", bug=READ_ONLY)
    assert refused.status == 1 and "cannot be written (Read-only file system)" in refused.told[-1]


def test_costs_are_those_of_the_subscription(person: Person) -> None:
    """No dollars are invented, none are asked for, and a limit in dollars says that it does not bind."""
    person.sign_in()
    listed = {row["name"]: row for row in person.run("model", "list", "--json").result["models"]}
    assert listed[COPILOT]["covered"] and listed[COPILOT]["input_price"] is None
    assert all(row["output_price"] is None for name, row in listed.items() if name.startswith("github_copilot/"))
    assert "covered by the subscription" in person.run("model", "list").text
    assert "covered by the subscription" in " ".join(person.run("model", "show", COPILOT).text.split())
    asked = person.ask("hi", "--max-cost", "0.01")
    assert asked.status == 0 and any("max_cost has no effect" in line for line in asked.told), asked
    usage = person.run("usage")
    assert "Covered by a subscription" in usage.text and "config set" not in usage.text and "$" not in usage.text
    assert person.run("usage", "--json").result["total"]["cost_usd"] is None
    keys = {check["name"]: check for check in person.run("doctor", "--json").result["checks"]}["keys"]
    assert "GITHUB_COPILOT_LOGIN" in keys["detail"] and GITHUB_TOKEN not in keys["detail"]


def test_without_any_key_the_login_is_named(person: Person) -> None:
    keys = {check["name"]: check for check in person.run("doctor", "--json").result["checks"]}["keys"]
    assert "github-copilot" in keys["hint"] and "chatgpt" in keys["hint"]


@pytest.mark.matrix
def test_two_accounts_have_a_login_each(person: Person) -> None:
    person.sign_in()
    assert person.run("login", "github-copilot", "--as", "work").status == 0
    assert person.ask("hi", model=f"work:{COPILOT}").status == 0
    token = json.loads(person.stored("GITHUB_COPILOT_LOGIN@work").read_text())["token"]
    assert person.place.server.requests[-1].headers["authorization"] == f"Bearer {token}"
    assert person.run("logout", "github-copilot", "--as", "work").status == 0
    gone = person.ask("hi", model=f"work:{COPILOT}")
    assert gone.status == 2 and "nexus login github-copilot --as work" in " ".join(gone.told)


@pytest.mark.parametrize("text", sample(["", "{", "[]", '{"access_token": 1}', "gho_plain"], 5, 1))
def test_a_damaged_login_is_one_line(person: Person, text: str) -> None:
    person.sign_in()
    person.copilot.write_text(text)
    done = person.ask("hi")
    assert done.status == 2 and "nexus login" in " ".join(done.told) and b"Traceback" not in done.stderr
