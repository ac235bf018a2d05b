"""A request that is sent before litellm is there: the same bytes and answers, once, and never where it is not safe."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import certifi
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import need
from provider.front import Front, certificate
from provider.head_starts import KEY, TEXTS, WHOLE, Processes, processes, wire
from provider.talk import ASKED, hear, request
from provider.test_body import TEXT, TURN
from search import sample
from server.play import ScriptedServer

from nexus_cli.core.errors import ProviderError
from nexus_cli.core.request import ModelInfo
from nexus_cli.provider import head_start, litellm_backend, request_template
from nexus_cli.provider.endpoint import Endpoint
from nexus_cli.provider.head_start import find_head_start
from nexus_cli.provider.litellm_backend import LitellmBackend
from nexus_cli.provider.model_table import NEWER
from nexus_cli.provider.request_template import MAX_FILES, VOLATILE

CHAT = "openai/gpt-4o"
CALLED = (
    *ASKED,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c12345678", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}],
    },
    {"role": "tool", "tool_call_id": "c12345678", "content": "seen"},
)
"""A conversation that is resumed."""


@pytest.fixture
def person(model_server: ScriptedServer, tmp_path: Path) -> Iterator[Processes]:
    with processes(model_server, tmp_path / "requests") as made:
        yield made


def say(text: str) -> list[dict[str, Any]]:
    return [{"role": "system", "content": f"Be brief about {text}."}, {"role": "user", "content": text}]


@pytest.mark.parametrize("model", sample([*WHOLE, *TEXTS], 5))
def test_the_third_process_sends_what_litellm_would_and_hears_the_same(model: str, person: Processes) -> None:
    answer = {"text": "größe", "thinking": "let me see", "calls": [{"name": "look", "arguments": {"at": "ü"}}]}
    person.server.load({"default": answer})
    person.learn(model, say("the first"), cache_key="one", effort="low")
    asked = {"cache_key": "another", "effort": "low", "max_output": 77}
    text = say("größe 漢字\n\u2028 🙂")
    person.server.meter.forget()
    heard, early = person.ask(model, text, **asked)
    person.server.meter.forget()
    plain, _ = person.ask(model, text, plain=True, **asked)
    assert early and heard.error is None is plain.error
    ahead, behind = person.server.requests
    assert wire(ahead) == wire(behind)
    replies = [replace(one.reply, message=replace(one.reply.message, opaque=None)) for one in (heard, plain)]
    assert replies[0] == replies[1] and replies[0].sent_body, "with the hash of the body"


@pytest.mark.matrix
@pytest.mark.parametrize("model", sample(WHOLE, 3))
def test_a_resumed_conversation_is_sent_early_where_the_provider_takes_our_form(model: str, person: Processes) -> None:
    person.server.load({"default": "fine"})
    person.learn(model, CALLED)
    longer = [*CALLED, {"role": "assistant", "content": "It is."}, {"role": "user", "content": "And now?"}]
    assert not person.ask(model, longer)[1], "neighbours that no request of litellm was equal with"
    heard, early = person.ask(model, longer)
    plain, _ = person.ask(model, longer, plain=True)
    assert early and heard.reply == plain.reply
    assert wire(person.server.requests[-2]) == wire(person.server.requests[-1])


@pytest.mark.matrix
@pytest.mark.parametrize("model", sample(TEXTS, 3))
def test_a_resumed_conversation_is_left_to_litellm_where_it_takes_another_form(model: str, person: Processes) -> None:
    for _ in range(4):
        heard, early = person.ask(model, CALLED)
        assert heard.error is None and not early


THOUGHT = [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]
ODD = st.sampled_from(
    ["user", "Be brief.", '"', "\\u0000key\\u0000", "\0text0\0", "\0messages\0", "100", CHAT, "\ufffd"]
)
ANY_TEXT = TEXT | ODD
ANY_TURN = TURN | st.builds(
    lambda text: [
        {"role": "assistant", "content": text, "thinking_blocks": THOUGHT, "reasoning_content": "hm"},
        {"role": "user", "content": [{"type": "text", "text": text}]},
    ],
    ANY_TEXT,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "tools": st.just(()),
        "max_output": st.sampled_from([77, 8192]),
        "effort": st.sampled_from(["low", "high"]),
        "tool_choice": st.just("none"),
        "cache_key": st.sampled_from(["one", "two"]),
    },
)


@pytest.mark.parametrize("model", sample([*WHOLE, *TEXTS], 14, 7))
def test_no_request_differs_from_litellms_whatever_is_asked(model: str, person: Processes) -> None:
    @settings(max_examples=12)
    @given(st.lists(st.tuples(ANY_TEXT, ANY_TEXT, st.lists(ANY_TURN, max_size=2), FIELDS), min_size=1, max_size=4))
    def check(runs: list[tuple[str, str, list[Any], dict[str, Any]]]) -> None:
        for system, user, turns, fields in runs:
            first = [{"role": "system", "content": system}, {"role": "user", "content": user}]
            messages = [*first, *(message for turn in turns for message in turn)]
            person.server.requests.clear()
            heard, _ = person.ask(model, messages, **fields)
            plain, _ = person.ask(model, messages, plain=True, **fields)
            assert (heard.error and heard.error.kind) == (plain.error and plain.error.kind)
            sent = [wire(received) for received in person.server.requests]
            assert len(sent) in (0, 2) and len({str(one) for one in sent}) <= 1

    person.learn(model)
    check()
    assert len(person.early) > 0, "some were sent early"


FAULTS: list[Any] = [
    429,
    500,
    401,
    "reset",
    "close_before_head",
    "cut",
    "empty",
    "error_first",
    "bad_json",
    {"kind": "stall_before_head", "seconds": 60},
    {"kind": "stall", "seconds": 60},
]


@pytest.mark.matrix
@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("model", [CHAT, "hosted_vllm/m", "anthropic/claude-sonnet-4-5"])
def test_a_failure_is_litellms_and_nothing_is_sent_twice(model: str, fault: Any, person: Processes) -> None:
    seconds = 1.0 if isinstance(fault, dict) else 20.0
    person.learn(model, stall_seconds=seconds)
    person.server.load({"default": {"text": "half of it", "fault": fault}})
    heard, early = person.ask(model, stall_seconds=seconds)
    assert early and len(person.server.requests) == 1
    plain, _ = person.ask(model, stall_seconds=seconds, plain=True)
    if fault != "reset":  # a reset throws away what has not been read yet, also if something had arrived
        assert heard.reply == plain.reply
        assert vars(heard.error or plain) == vars(plain.error or plain)
    assert str(heard.error) == str(plain.error)
    person.server.load(["fine"])
    assert person.ask(model, stall_seconds=seconds)[1], "a failure says nothing against a template"


@pytest.mark.matrix
@pytest.mark.parametrize("model", [CHAT, "hosted_vllm/m", "anthropic/claude-sonnet-4-5"])
def test_a_template_that_differs_ends_as_a_cut_answer_and_is_used_no_more(model: str, person: Processes) -> None:
    person.learn(model)
    person.alter("stream", "strewn")
    heard, early = person.ask(model)
    assert early and heard.error is not None
    assert (heard.error.kind, heard.error.cut, heard.error.transient) == ("provider", True, False)
    assert len(person.server.requests) == 1, "whoever asks again records it first"
    assert all(not found["body"] or found["head"] for found in person.files())
    for _ in range(4):
        heard, early = person.ask(model)
        assert heard.error is None and not early


def test_a_request_that_litellm_never_makes_is_told_too(person: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    person.learn(CHAT)

    def broken() -> None:
        raise ImportError("no litellm here")

    module = litellm_backend.litellm()
    monkeypatch.setattr(module, "acompletion", lambda **_: broken())
    heard, early = person.ask(CHAT)
    assert early and heard.error is not None and heard.error.cut
    assert person.server.wait_for(lambda server: bool(server.requests), 60)
    heard, early = person.ask(CHAT)
    assert not early and heard.error is not None and not heard.error.cut


def test_the_request_arrives_before_litellm_is_imported(person: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    person.learn(CHAT)
    real = litellm_backend.litellm
    arrived: list[bool] = []

    def slow() -> Any:
        if not arrived:
            arrived.append(person.server.wait_for(lambda server: bool(server.requests), 60))
        return real()

    person.begin()
    monkeypatch.setattr(litellm_backend, "_litellm", None)
    monkeypatch.setattr(litellm_backend, "litellm", slow)
    heard = asyncio.run(hear(person.backend(CHAT), request(CHAT)))
    assert arrived == [True] and heard.error is None


@pytest.mark.matrix
@pytest.mark.parametrize("when", ["before litellm asks", "while the model reads", "within the answer"])
def test_a_cancelled_request_closes_the_connection_and_keeps_the_template(
    when: str, person: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.learn(CHAT)
    stall = (
        {"kind": "stall", "seconds": 120}
        if when == "within the answer"
        else {"kind": "stall_before_head", "seconds": 120}
    )
    person.server.load([{"text": "half of it", "fault": stall}, "fine"])

    async def run() -> None:
        person.begin()
        backend = person.backend(CHAT)
        begun = asyncio.Event()
        opened = asyncio.Event()
        monkeypatch.setattr(backend, "_open", _signal(backend._open, opened, wait=when == "before litellm asks"))

        async def read() -> None:
            async for _ in backend.stream(asked):
                begun.set()

        asked = request(CHAT)
        task = asyncio.create_task(read())
        await (begun if when == "within the answer" else opened).wait()
        assert await asyncio.to_thread(person.server.wait_for, lambda server: bool(server.requests), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asked.sending.is_sent
        assert await asyncio.to_thread(person.server.wait_for, lambda server: server.requests[0].closed_early, 60)

    asyncio.run(run())
    assert len(person.server.requests) == 1
    monkeypatch.undo()
    with processes(person.server, person.folder) as later:
        assert later.ask(CHAT)[1]


def _signal(real: Any, opened: asyncio.Event, *, wait: bool) -> Any:
    async def stopped(*given: Any) -> None:
        opened.set()
        if wait:
            await asyncio.sleep(3600)
        await real(*given)

    return stopped


@pytest.mark.matrix
def test_later_requests_of_the_process_use_the_early_connection_and_no_template(person: Processes) -> None:
    person.learn(CHAT)
    person.server.load(["one", "two", "three"])

    async def run() -> list[str]:
        person.begin()
        backend = person.backend(CHAT)
        texts = [(await hear(backend, request(CHAT))).reply.message.content for _ in range(3)]
        await backend.aclose()
        return texts

    assert asyncio.run(run()) == ["one", "two", "three"]
    assert len(person.early) == 1 and len(person.server.requests) == 3
    assert len({received.connection for received in person.server.requests}) == 1


@pytest.mark.parametrize("model", [CHAT, "hosted_vllm/m"])
def test_a_request_that_overtakes_the_first_one_leaves_it_no_other_connection(
    model: str, person: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """litellm would take the idle connection of the request that has ended, and send the first one on it again."""

    async def run() -> list[Any]:
        person.begin()
        first, second = person.backend(model), person.backend(model)
        go, real = asyncio.Event(), first._open

        async def late(*given: Any) -> None:
            await go.wait()
            await real(*given)

        monkeypatch.setattr(first, "_open", late)
        leading = asyncio.create_task(hear(first, request(model)))
        assert await asyncio.to_thread(person.server.wait_for, lambda server: bool(server.requests), 60)
        other = asyncio.create_task(hear(second, request(model)))
        await asyncio.wait({other}, timeout=1.0)
        go.set()
        heard = [await leading, await other]
        for backend in (first, second):
            await backend.aclose()
        return [one.error for one in heard]

    person.learn(model)
    assert asyncio.run(run()) == [None, None]
    assert (len(person.server.requests), len(person.early)) == (2, 1)


@pytest.mark.matrix
def test_an_early_connection_that_the_provider_has_closed_is_not_used_again(person: Processes) -> None:
    person.learn(CHAT)
    person.server.load([{"text": "one", "framing": "close"}, "two"])

    async def run() -> list[str]:
        person.begin()
        backend = person.backend(CHAT)
        return [(await hear(backend, request(CHAT))).reply.message.content for _ in range(2)]

    assert asyncio.run(run()) == ["one", "two"]
    assert len(person.server.requests) == 2


@pytest.mark.matrix
def test_the_key_is_in_no_template_and_a_new_one_is_sent(person: Processes) -> None:
    for model in (CHAT, "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-pro"):
        person.learn(model)
        kept = "".join(path.read_text() for path in person.folder.iterdir())
        assert KEY not in kept and "Be brief." not in kept and "Look at it." not in kept
        assert all(path.stat().st_mode & 0o777 == 0o600 for path in person.folder.iterdir())
        person.key = "sk-new-9876543210"
        assert person.ask(model)[1]
        assert any("sk-new-9876543210" in value for value in person.server.requests[0].headers.values())
        person.key = KEY


@pytest.mark.matrix
def test_a_word_instead_of_a_key_may_stand_in_the_tools_too(person: Processes) -> None:
    person.key = "Looks."
    person.learn("hosted_vllm/m")
    assert person.ask("hosted_vllm/m")[1]


@pytest.mark.matrix
def test_a_key_elsewhere_in_the_head_leaves_it_to_litellm(person: Processes) -> None:
    person.key = "m"
    for _ in range(4):
        assert not person.ask("hosted_vllm/m", say("anything"))[1]


# What a template is never used with.


@pytest.mark.matrix
def test_never_with_another_package(person: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    person.learn(CHAT)
    (tmp_path / "packages" / "litellm-9.9.9.dist-info").mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path / "packages")
        assert not person.ask(CHAT)[1]
    assert person.ask(CHAT)[1]


@pytest.mark.matrix
def test_never_with_other_facts_of_newer_models(
    person: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_template, "__file__", str(tmp_path / "request_template.py"))
    (tmp_path / NEWER.name).write_text("{}")
    person.learn(CHAT)
    assert person.ask(CHAT)[1]
    os.utime(tmp_path / NEWER.name, (1.0, 1.0))
    assert not person.ask(CHAT)[1]


CHANGES = {
    "OPENAI_ORGANIZATION": "other",
    "LITELLM_USER_AGENT": "other",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "all_proxy": "http://127.0.0.1:9",
    "SSL_VERIFY": "False",
    "OPENAI_CUSTOM_HEADERS": "X-Secret: 1",
}


@pytest.mark.matrix
@pytest.mark.parametrize("variable", CHANGES)
def test_never_in_another_environment(variable: str, person: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    person.learn(CHAT)
    with monkeypatch.context() as patch:
        patch.setenv(variable, CHANGES[variable])
        patch.setenv("NO_PROXY", "127.0.0.1")
        patch.setenv("no_proxy", "127.0.0.1")
        assert not person.ask(CHAT)[1]


@pytest.mark.matrix
@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "all_proxy", "SSL_VERIFY", "OPENAI_CUSTOM_HEADERS"])
def test_nothing_is_learned_with_a_proxy_or_rules_of_ones_own(
    variable: str, person: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, CHANGES[variable])
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for _ in range(4):
        assert not person.ask(CHAT)[1]
    assert not person.folder.exists()


def test_never_with_a_proxy_that_only_the_system_names(person: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    person.learn(CHAT)
    monkeypatch.setattr("urllib.request.getproxies", lambda: {"https": "http://127.0.0.1:9"})
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not person.ask(CHAT)[1]


@pytest.mark.matrix
def test_what_a_terminal_changes_is_no_other_environment(person: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    person.learn(CHAT)
    for name in ("TERM", "PWD", "COLUMNS", "SSH_TTY", "TMUX_PANE"):
        monkeypatch.setenv(name, "other")
    assert person.ask(CHAT)[1]


@pytest.mark.matrix
@pytest.mark.parametrize(
    "fields", [{"effort": "low"}, {"tools": ()}, {"tool_choice": "none"}, {"stall_seconds": 21.0}, {"cache_key": "new"}]
)
def test_never_with_other_options(fields: dict[str, Any], person: Processes) -> None:
    person.learn("openai/gpt-5")
    assert not person.ask("openai/gpt-5", **fields)[1]


@pytest.mark.parametrize("model", sample([CHAT, "anthropic/claude-sonnet-4-5"], 2, 1))
@pytest.mark.parametrize("learned", [False, True])
def test_never_after_a_redirect(model: str, learned: bool, person: Processes) -> None:
    with Front(person.server) as front:
        person.front = front
        if learned:
            person.learn(model)
        front.status = 307
        heard, early = person.ask(model)
        assert early == learned and heard.error is None and heard.reply.message.content
        assert (front.requests, len(person.server.requests)) == (1, 1)
        front.status = 0
        for _ in range(4):
            heard, early = person.ask(model)
            assert heard.error is None and not early


@pytest.mark.matrix
@pytest.mark.parametrize("model", sample([CHAT, "hosted_vllm/m"], 2, 1))
def test_an_encrypted_connection_is_begun_early_and_holds_its_certificate(
    model: str, person: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("openssl")
    made = certificate(tmp_path)
    with Front(person.server, made) as front:
        person.front = front
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "only.pem"))
        person.learn(model)
        heard, early = person.ask(model)
        assert heard.error is None and early and len(person.server.requests) == 1
        monkeypatch.setattr(head_start, "_tls_context", lambda: ssl.create_default_context(cafile=certifi.where()))
        heard, early = person.ask(model)
        assert heard.error is None and not early and len(person.server.requests) == 2, (
            "an unknown certificate: litellm's"
        )


SIGNED = [
    Endpoint("bedrock", "bedrock/anthropic.claude-sonnet-4-5", None, None),
    Endpoint("vertex_ai", "vertex_ai/gemini-2.5-pro", None, None),
    Endpoint("azure", "azure/gpt-4o", "https://one.openai.azure.com", "k"),
    Endpoint("github_copilot", "github_copilot/gpt-4o", None, None, "GITHUB_COPILOT_LOGIN"),
    Endpoint("chatgpt", "chatgpt/gpt-5", None, None, "CHATGPT_LOGIN"),
    Endpoint("openai", CHAT, "http://name:password@127.0.0.1:1/v1", "k"),
    Endpoint("openai", CHAT, "unix:///socket", "k"),
]


@pytest.mark.parametrize("where", SIGNED, ids=lambda where: f"{where.provider} {where.base}")
def test_never_for_a_provider_that_signs_or_wants_a_login(where: Endpoint, tmp_path: Path) -> None:
    info = ModelInfo(where.model, where.provider, 9)
    assert find_head_start(tmp_path, request(where.model), where, info) is None


def test_a_template_cannot_name_another_host(person: Processes) -> None:
    person.learn(CHAT)
    person.alter("Host: 127.0.0.1", "Host: evil.example")
    heard, _ = person.ask(CHAT)
    assert heard.error is not None and heard.error.cut
    assert len(person.server.requests) == 1, "it went where the settings say"


@pytest.mark.matrix
def test_a_refused_connection_is_litellms_failure(person: Processes) -> None:
    person.learn(CHAT)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))

        async def run(folder: Path | None) -> ProviderError | None:
            person.begin()
            base = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
            backend = LitellmBackend(api_base=base, api_key=KEY, templates=folder)
            return (await hear(backend, request(CHAT))).error

        errors = [asyncio.run(run(folder)) for folder in (person.folder, None)]
    assert errors[0] is not None and vars(errors[0]) == vars(errors[1])


READS = re.compile(r"""(?:environ(?:\.get)?[\[(]|getenv\(|secret(?:_str|_bool)?\()\s*["'](\w+)["']""")
OTHER_PARTS = ("/chatgpt/", "/integrations/", "/proxy/", "/openai/cli/")
"""Parts of the libraries that no request of a provider with templates comes through."""


@pytest.mark.matrix
def test_no_variable_that_counts_as_the_terminals_is_read_by_the_libraries() -> None:
    libraries = Path(litellm_backend.litellm().__file__).parent.parent
    files = [
        path
        for name in ("litellm", "openai", "httpx", "httpcore", "anyio")
        for path in (libraries / name).rglob("*.py")
    ]
    read = {
        name
        for path in files
        if not any(part in str(path) for part in OTHER_PARTS)
        for name in READS.findall(path.read_text(errors="replace"))
    }
    assert {"OPENAI_API_KEY", "SSL_CERT_FILE", "LITELLM_USER_AGENT"} <= read
    assert not [name for name in read if VOLATILE.fullmatch(name)]


@pytest.mark.matrix
@pytest.mark.parametrize("damage", ["", "{", "[]", '{"head": 1}', '{"head": [1], "body": [], "dense": false}', "\0"])
def test_a_damaged_template_is_learned_anew(damage: str, person: Processes) -> None:
    person.learn(CHAT)
    for path in person.folder.iterdir():
        path.write_text(damage)
    assert [person.ask(CHAT)[1] for _ in range(3)] == [False, False, True]


@pytest.mark.matrix
def test_a_folder_that_cannot_be_written_costs_no_request(person: Processes) -> None:
    person.folder.write_text("a file")
    for _ in range(3):
        heard, early = person.ask(CHAT)
        assert heard.error is None and not early


def test_the_oldest_templates_leave(person: Processes) -> None:
    person.folder.mkdir()
    for number in range(MAX_FILES):
        path = person.folder / f"{number}.json"
        path.write_text("{}")
        os.utime(path, (number, number))
    person.learn(CHAT)
    names = {path.name for path in person.folder.iterdir()}
    assert len(names) == MAX_FILES and "0.json" not in names and "1.json" in names
    assert person.ask(CHAT)[1]


@pytest.mark.matrix
def test_a_text_that_is_a_word_of_the_body_too_teaches_nothing(person: Processes) -> None:
    model = "anthropic/claude-sonnet-4-5"
    for _ in range(3):
        assert not person.ask(model, say("user"))[1]
    assert not person.files()
    person.learn(model)
    assert person.ask(model, say("user"))[1], "once there is a place, any text can stand there"
