"""A model server of one's own: its window is asked for once, and what it cuts in silence is told."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from program.stage import Seen, calls, clean, play, stage

OLLAMA = "ollama_chat/qwen3-coder:30b"
SHOWN = {
    "parameters": 'num_ctx                        16384\nstop                           "<|im_end|>"',
    "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 32768},
}
LONG = b"a line of the log that goes on for a while\n" * 5_000


def told_by_ollama(root: Path) -> dict[str, Any]:
    with stage(root, ["first", "second"], answers={("POST", "/api/show"): SHOWN}) as place:
        place.environment["OLLAMA_API_BASE"] = place.server.url
        done = place.ask("--json", "-m", OLLAMA, "hi")
        asked = [one.path for one in place.server.others]
        shown = place.run("model", "show", OLLAMA, "--json").result
        replayed = place.run("replay")
        return {"done": done, "asked": asked, "sent": place.server.requests[0].body, "model": shown, "replay": replayed}


def cut_in_silence(root: Path) -> dict[str, Any]:
    script: list[Any] = [{"text": "what log?", "usage": {"input": 2000, "output": 5}}, "I see"]
    with stage(
        root, script, answers={("POST", "/api/show"): {"model_info": {"qwen3.context_length": 131072}}}
    ) as place:
        place.environment["OLLAMA_API_BASE"] = place.server.url
        first = place.ask("--json", "-m", OLLAMA, "what failed?", stdin=LONG)
        context = place.run("context", "--json").result
        drops, original = place.run("drops").text, place.run("drops", "show", "d1").text
        place.ask("-c", "and now?")
        return {
            "first": first,
            "context": context,
            "drops": drops,
            "original": original,
            "next": str(place.server.requests[-1].body["messages"][-1]["content"]),
        }


def counts_what_is_new(root: Path) -> dict[str, Any]:
    line, script = LONG[: LONG.index(b"\n") + 1], [{"text": "fine", "usage": {"input": n}} for n in (1, 5000, 5000)]
    with stage(
        root, script, answers={("POST", "/api/show"): {"model_info": {"qwen3.context_length": 131072}}}
    ) as place:
        place.environment["OLLAMA_API_BASE"] = place.server.url
        first = place.ask("--json", "-m", OLLAMA, "what failed?", stdin=line * 1_000)
        later = [place.ask("-c", "--json", "-m", OLLAMA, "and here?", stdin=line * 500) for _ in range(2)]
        return {"done": [first, *later]}


def named_by_a_refusal(root: Path) -> dict[str, Any]:
    with stage(root, ["first", "second"], refuse_above=2300) as place:
        first, second = (
            place.ask("fetch, remember, plan, todo, agent, agents, jobs and wait_for: what are they?"),
            place.ask("-c", "and now?"),
        )
        return {"first": first, "second": second, "bodies": [request.body for request in place.server.requests]}


LISTED = {"data": [{"id": "team/coder", "context_length": 50_000}]}
PATIENT = "from nexus_cli.provider import served_models; served_models.SECONDS = 60.0"


def answers_beside_the_request(root: Path) -> dict[str, Any]:
    """A gateway on another machine, as its address says, that lists its models once a request has arrived."""
    has_asked = threading.Event()

    def list_models() -> dict[str, Any]:
        has_asked.wait(60)
        return LISTED

    def reply(request: Any) -> Any:
        if has_asked.is_set():
            return "done"
        has_asked.set()
        return calls(("bash", {"command": f"until ls {root}/home/nexus/cache/servers; do sleep 0.1; done"}))

    with stage(root, reply, answers={("GET", "/v1/models"): list_models}) as place:
        place.environment |= {"OPENAI_API_BASE": f"http://0.0.0.0:{place.server.port}/v1", "NO_PROXY": "0.0.0.0"}
        first = place.ask("--json", "--allow", "all", "-m", "openai/team/coder", "hi", bug=PATIENT)
        second = place.ask("--json", "-m", "openai/team/coder", "hi")
        return {"first": first, "second": second, "asked": [one.path for one in place.server.others]}


def takes_no_tools(root: Path) -> dict[str, Any]:
    with stage(
        root, ["one", "two"], answers={("POST", "/api/show"): {**SHOWN, "capabilities": ["completion"]}}
    ) as place:
        place.environment["OLLAMA_API_BASE"] = place.server.url
        done = place.ask("-m", OLLAMA, "hi")
        later = place.ask("-c", "-m", "openai/scripted", "and now?")
        shown = place.run("model", "show", OLLAMA, "--json").result
        return {"done": done, "later": later, "sent": [one.body for one in place.server.requests], "shown": shown}


def says_nothing_of_the_window(root: Path) -> dict[str, Any]:
    with stage(root, ["one"], answers={("GET", "/v1/models"): LISTED}) as place:
        place.environment |= {"OPENAI_API_BASE": f"http://0.0.0.0:{place.server.port}/v1", "NO_PROXY": "0.0.0.0"}
        done = place.ask("--no-save", "-m", "openai/team/coder", "hi")
        return {"done": done, "kept": sorted(one.name for one in (place.nexus_home / "cache").glob("*/*"))}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return play(
        tmp_path_factory.mktemp,
        told_by_ollama,
        cut_in_silence,
        counts_what_is_new,
        named_by_a_refusal,
        answers_beside_the_request,
        takes_no_tools,
        says_nothing_of_the_window,
    )


def test_the_window_of_a_local_server_comes_from_the_server_which_is_asked_once(seen: Seen) -> None:
    shown = seen["told_by_ollama"]
    assert shown["done"].status == 0 and clean(shown["done"]) and not shown["done"].stderr
    assert shown["done"].result["context"]["window"] == 16384
    assert shown["sent"]["options"]["num_ctx"] == 16384
    assert shown["asked"] == ["/api/show"]
    assert (shown["model"]["window"], shown["model"]["known"]) == (16384, True)
    assert shown["replay"].status == 0, shown["replay"]


def test_what_the_server_cut_in_silence_is_a_drop_and_told_at_once(seen: Seen) -> None:
    shown = seen["cut_in_silence"]
    first = shown["first"]
    (drop,) = first.result["drops"]
    assert (drop["id"], drop["cause"]) == ("d1", "server") and drop["tokens"] > 40_000
    told = first.stderr.decode()
    assert clean(first) and "2,000" in told and f"""nexus config set 'models."{OLLAMA}".window'""" in told
    assert [one["id"] for one in shown["context"]["drops"]] == ["d1"]
    assert "truncated by the server" in shown["drops"] and "goes on for a while" in shown["original"]
    assert "The server seems to have cut about" in shown["next"] and "drop d1" in shown["next"]


@pytest.mark.matrix
def test_a_server_that_counts_only_what_it_had_not_cached_has_cut_nothing(seen: Seen) -> None:
    for done in seen["counts_what_is_new"]["done"]:
        assert clean(done) and (done.result["drops"], done.stderr) == ([], b""), done


def test_a_window_that_a_refusal_names_is_used_in_the_same_step(seen: Seen) -> None:
    shown = seen["named_by_a_refusal"]
    assert (shown["first"].status, shown["first"].stdout) == (0, b"first\n")
    assert "small context window (2,300 tokens): only the file and command tools" in shown["first"].stderr.decode()
    refused, taken, later = shown["bodies"]
    names = [{tool["function"]["name"] for tool in body["tools"]} for body in (refused, taken, later)]
    assert names[1] == names[2] < names[0]
    assert ["Remember what a later" in body["messages"][0]["content"] for body in (refused, taken)] == [True, False]
    assert shown["second"].status == 0


@pytest.mark.matrix
def test_a_server_on_another_machine_is_asked_beside_the_request(seen: Seen) -> None:
    shown = seen["answers_beside_the_request"]
    assert clean(shown["first"]) and shown["first"].status == 0, shown["first"]
    assert shown["first"].result["steps"] == 2
    assert [shown[name].result["context"]["window"] for name in ("first", "second")] == [50_000, 50_000]
    assert shown["asked"] == ["/v1/models"] and not shown["first"].stderr


def test_no_answer_of_a_server_is_kept_without_saving(seen: Seen) -> None:
    shown = seen["says_nothing_of_the_window"]
    assert (shown["done"].status, shown["done"].stdout, shown["kept"]) == (0, b"one\n", []), shown


@pytest.mark.matrix
def test_a_model_without_tools_is_asked_without_them(seen: Seen) -> None:
    shown = seen["takes_no_tools"]
    assert clean(shown["done"]) and shown["done"].stdout == b"one\n"
    assert "does not support tools" in shown["done"].stderr.decode() and shown["shown"]["tools"] is False
    assert [bool(body.get("tools")) for body in shown["sent"]] == [False, True], shown["later"]
