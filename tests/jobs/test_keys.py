"""The job: two keys of one provider, one for work and one of one's own, each billed for what it did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from program.stage import MODEL, PRICED, QUICK, Stage, stage
from search import sample

from nexus_cli.config.settings import Settings
from nexus_cli.core.errors import NexusError
from nexus_cli.provider.available_models import resolve_for_worker
from nexus_cli.provider.model_names import split_key_name
from nexus_cli.provider.model_table import model_info
from nexus_cli.provider.wire_rules import rules_for
from nexus_cli.ui.render import status_line

OWN, WORK = "sk-own-0123456789", "sk-work-0123456789"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path) as made:
        made.script(lambda body: {"text": "Done."})
        made.environment.pop("OPENAI_API_KEY", None)
        yield made


def bearer(place: Stage) -> str:
    """The key of the last request."""
    return place.server.requests[-1].headers["authorization"].removeprefix("Bearer ")


def test_each_key_pays_for_the_requests_that_name_it(place: Stage) -> None:
    assert place.run("login", "openai", stdin=OWN.encode()).status == 0
    done = place.run("login", "openai", "--as", "work", stdin=WORK.encode())
    assert done.status == 0 and "work:openai/" in done.text and WORK not in done.text
    assert place.run("ask", "hi", "-m", MODEL).status == 0 and bearer(place) == OWN
    asked = place.run("ask", "hi", "-m", f"work:{MODEL}", "--json")
    assert asked.status == 0 and bearer(place) == WORK
    body = place.server.requests[-1].body
    assert body["model"] == MODEL.partition("/")[2], "the name of the key is ours alone"
    assert body == {**place.server.requests[-2].body, "messages": body["messages"], **_own_keys(body)}
    models = {row["model"]: row for row in place.run("usage", "--json").result["models"]}
    assert set(models) == {MODEL, f"work:{MODEL}"} and not any(row["unpriced"] for row in models.values())
    assert place.run("ask", "hi", "-m", "work:openai/other").status == 0
    keys = {row["name"]: row["requests"] for row in place.run("usage", "--by", "key", "--json").result["named"]}
    assert keys == {"openai": 1, "work:openai": 2}
    assert "by key:" in place.run("usage", "--by", "key").text
    assert place.run("logout", "openai", "--as", "work").status == 0
    gone = place.run("ask", "hi", "-m", f"work:{MODEL}")
    assert gone.status != 0 and "nexus login openai --as work" in " ".join(gone.told)
    assert place.run("ask", "hi", "-m", MODEL).status == 0 and bearer(place) == OWN


def test_the_key_of_a_folder_pays_for_the_projects_in_it(place: Stage) -> None:
    """A key named at the command line wins, and another one does not pay for a key that is missing."""
    place.settings(f'[folder_keys]\n"{place.folder.parent}" = "own"\n"{place.folder}" = "work"\n{PRICED}{QUICK}')
    place.run("login", "openai", stdin=OWN.encode())
    place.run("login", "openai", "--as", "work", stdin=WORK.encode())
    asked = place.run("ask", "hi", "-m", MODEL, "--json")
    assert asked.status == 0 and bearer(place) == WORK
    assert place.run("ask", "-c", "go on").status == 0 and bearer(place) == WORK
    other = place.folder.parent / "other"
    other.mkdir()
    missing = place.run("ask", "hi", "-m", MODEL, "-C", str(other))
    assert missing.status != 0 and "nexus login openai --as own" in " ".join(missing.told)
    assert place.run("ask", "hi", "-m", f"work:{MODEL}", "-C", str(other)).status == 0 and bearer(place) == WORK


def test_a_project_cannot_choose_a_key(place: Stage) -> None:
    place.run("login", "openai", stdin=OWN.encode())
    place.run("login", "openai", "--as", "work", stdin=WORK.encode())
    (place.folder / ".nexus").mkdir()
    (place.folder / ".nexus" / "config.toml").write_text(f'[folder_keys]\n"{place.folder}" = "work"\n')
    place.run("trust", "--yes")
    assert place.run("ask", "hi", "-m", MODEL).status == 0 and bearer(place) == OWN


def test_a_model_cannot_choose_another_key_for_a_worker() -> None:
    settings, own = Settings(alias={"cheap": "two:openai/small"}), "work:openai/gpt-5"
    assert resolve_for_worker("openai/gpt-5-mini", own, settings) == "work:openai/gpt-5-mini"
    assert resolve_for_worker("ollama/qwen3:8b", own, settings) == "ollama/qwen3:8b"
    assert resolve_for_worker("cheap", own, settings) == "two:openai/small", "the person named it"
    with pytest.raises(NexusError):
        resolve_for_worker("two:openai/gpt-5", own, settings)


@pytest.mark.parametrize("name", ["ft:gpt-4o", "ollama/qwen3:8b", "gpt-5", "openrouter/x/y:free"])
def test_a_colon_alone_is_part_of_the_model(name: str) -> None:
    assert split_key_name(name) == ("", name)


def test_the_facts_of_a_model_are_those_without_the_key() -> None:
    named, plain = model_info("claude:openai/gpt-5"), model_info("openai/gpt-5")
    assert replace(named, name=plain.name) == plain
    assert rules_for("mistral:openrouter/openai/gpt-5") == rules_for("openrouter/openai/gpt-5")


@pytest.mark.parametrize(
    ("name", "shown"), [("work:openai/gpt-5", "work:gpt-5"), ("openai/gpt-5", "gpt-5"), ("ollama/qwen3:8b", "qwen3:8b")]
)
def test_the_status_line_names_a_key_that_is_not_the_usual_one(name: str, shown: str) -> None:
    assert status_line._model(name) == shown


def _own_keys(body: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in body.items() if name.endswith("cache_key")}


@pytest.mark.parametrize("name", sample(["Work", "a b", "openai", "../x"], 4, 1))
def test_a_name_that_no_key_can_have_is_refused_in_one_line(place: Stage, name: str) -> None:
    done = place.run("login", "openai", "--as", name, stdin=WORK.encode())
    assert done.status == 2 and len(done.told) == 1 and WORK not in done.stderr.decode()
    assert not (place.nexus_home / "data" / "keys").exists()
