"""A server that dies, is silent, floods or lies harms one call, and the error says what it did."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp_play import Play, is_gone, raw
from search import sample

from nexus_cli.mcp.connection import MAX_QUESTIONS
from nexus_cli.mcp.server_values import ServerEntry, ServerError, ServerQuestion


def fails(play: Play, server: ServerEntry, **arguments: object) -> ServerError:
    with pytest.raises(ServerError) as caught:
        play.call(server, **arguments)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 800
    return caught.value


def test_a_server_that_dies_before_the_handshake_is_quoted(play: Play) -> None:
    error = fails(play, raw("dies_before"))
    assert error.fault == "died"
    assert "status 1" in str(error)
    assert "no database | at port 5432" in str(error)


def test_a_server_that_is_silent_is_given_up_after_its_start_limit(play: Play) -> None:
    error = fails(play, raw("silent", start=0.5))
    assert (error.fault, "did not start within 0.5 s" in str(error)) == ("silent", True)


def test_a_program_that_does_not_exist_is_named(play: Play) -> None:
    error = fails(play, ServerEntry("gone", ("/nonexistent/server",)))
    assert (error.fault, "/nonexistent/server" in str(error)) == ("start", True)


def test_a_call_that_may_have_taken_effect_is_not_repeated(play: Play, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    error = fails(play, raw("dies_in_call", notes))
    assert error.fault == "died"
    assert "status 7" in str(error)
    assert "out of memory" in str(error)
    assert "it is unknown whether the call took effect" in str(error)
    assert notes.read_text().split() == ["begin", "call"]


@pytest.mark.matrix
def test_a_server_that_closes_its_output_was_not_killed_by_a_signal(play: Play) -> None:
    error = fails(play, raw("closes"))
    assert error.fault == "died"
    assert "the server closed its stdout; it is unknown whether the call took effect" in str(error)


def test_a_list_is_asked_for_once_more_on_a_fresh_connection(play: Play, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    tools = play.run(play.host.list_offer(raw("dies_once", notes))).tools
    assert [tool.name for tool in tools] == ["read_file"]
    assert notes.read_text().split() == ["begin", "list", "begin", "list"]


def test_a_server_that_died_between_calls_is_started_again(play: Play) -> None:
    server = raw("child")
    first, child = map(int, play.call(server).split())
    os.kill(first, 9)
    assert is_gone(first)
    second, _ = map(int, play.call(server).split())
    assert second != first
    assert is_gone(child)


@pytest.mark.matrix
def test_a_server_that_fails_again_and_again_is_told_at_once_until_the_host_ends(play: Play, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    server = raw("dies_before", notes)
    for _ in range(4):
        fails(play, server)
    begun = notes.read_text().split()
    assert begun == ["begin"] * 4
    error = fails(play, server)
    assert "after 4 failures" in str(error)
    assert "no database" in str(error)
    assert notes.read_text().split() == begun
    play.run(play.host.aclose())
    fails(play, server)
    assert notes.read_text().split() == ["begin"] * 5


def test_a_line_of_60_mb_is_not_read_to_its_end(play: Play) -> None:
    assert fails(play, raw("huge")).fault == "too_large"


def test_invalid_utf8_is_replaced_and_a_line_of_it_left_out(play: Play) -> None:
    assert play.call(raw("utf8")) == "caf\N{REPLACEMENT CHARACTER}"


def test_answers_to_what_was_not_asked_are_left_out(play: Play) -> None:
    assert play.call(raw("wrong_ids"), answer=True) == "right"
    assert fails(play, raw("wrong_ids", call=0.5)).fault == "silent"


def test_logs_on_stdout_are_left_out(play: Play) -> None:
    assert play.call(raw("stdout_log"), text="hi") == "hi"


@pytest.mark.matrix
def test_notifications_without_end_harm_one_call_and_no_other_server(play: Play) -> None:
    async def both() -> tuple[str, str]:
        storm = asyncio.create_task(play.host.call(raw("storm", call=3), "read_file", {}))
        await asyncio.sleep(0.2)
        other = await play.host.call(raw("ok"), "read_file", {"text": "hi"})
        with pytest.raises(ServerError) as caught:
            await storm
        return other.text, caught.value.fault

    text, fault = play.run(both())
    assert text == "hi"
    assert fault in ("protocol", "silent")


def test_a_schema_that_refers_to_itself_is_handed_on_and_never_followed(play: Play) -> None:
    server = raw("loop")
    (tool,) = play.run(play.host.list_offer(server)).tools
    assert tool.parameters["$ref"] == "#/$defs/a"
    assert tool.hints == {"readOnlyHint": True}
    assert play.call(server, text="hi") == "hi"


def test_an_answer_that_breaks_its_own_schema_is_still_the_answer(play: Play) -> None:
    server = raw("liar")
    play.run(play.host.list_offer(server))
    assert play.call(server) == '{"b": 1}'


def test_structured_content_is_shown_where_the_text_lacks_a_value(play: Play) -> None:
    server = raw("beside")
    structured = '{"rows": [{"name": "ü\\n", "n": 3, "gone": null}]}'
    assert play.call(server, text="1 row") == f"1 row\n{structured}"
    assert play.call(server, text="ü\n: 3") == "ü\n: 3"
    assert play.call(server, text=structured) == structured


def test_an_error_with_the_code_of_a_lost_connection_is_one_of_the_call(play: Play) -> None:
    error = fails(play, raw("own_error"))
    assert (error.fault, "no such note" in str(error)) == ("refused", True)


def test_what_is_no_result_names_the_place(play: Play) -> None:
    error = fails(play, raw("no_result"))
    assert error.fault == "protocol"
    assert "content" in str(error)


def test_a_tool_without_a_schema_is_left_out_with_the_place_but_not_one_whose_schema_has_no_type(play: Play) -> None:
    offer = play.run(play.host.list_offer(raw("bad_tools")))
    assert [tool.name for tool in offer.tools] == ["b"] and offer.left_out == (
        "tool a is skipped: inputSchema: Field required",
    )


def test_lists_that_a_server_announces_and_refuses_cost_no_tool(play: Play) -> None:
    offer = play.run(play.host.list_offer(raw("boaster")))
    assert len(offer.tools) == 1 and not offer.prompts and not offer.resources


def test_a_list_without_end_is_cut(play: Play) -> None:
    assert len(play.run(play.host.list_offer(raw("endless"))).tools) == 100


def test_a_list_of_hundreds_of_megabytes_harms_no_other_server(play: Play) -> None:
    first = play.call(raw("child"))
    with pytest.raises(ServerError, match="its list of tools exceeds the maximum of 10 MB") as caught:
        play.run(play.host.list_offer(raw("pages")))
    assert caught.value.fault == "protocol"
    assert play.call(raw("child")).split()[0] == first.split()[0], "the other one still runs"


@pytest.mark.parametrize("answer", sample([None, {}], 2))
def test_a_server_that_asks_without_end_is_answered_for_the_person(
    play: Play, answer: Mapping[str, Any] | None
) -> None:
    """After a refusal, and after a number of answers: a call stops no clock and puts no question any more."""
    asked: list[ServerQuestion] = []

    async def ask(question: ServerQuestion) -> Mapping[str, Any] | None:
        asked.append(question)
        return answer

    said = play.run(play.host.call(raw("nags"), "read_file", {}, ask=ask)).text.split()
    assert len(asked) == (1 if answer is None else MAX_QUESTIONS) and len(said) == 1000
    assert set(said[len(asked) :]) == {"cancel"}


@pytest.mark.matrix
def test_a_server_that_ignores_the_end_of_its_input_and_sigterm_is_killed_with_its_children(play: Play) -> None:
    server = raw("stubborn")
    pids = list(map(int, play.call(server).split()))
    play.run(play.host.aclose())
    assert all(map(is_gone, pids))


def test_the_brief_reason_has_the_last_line_of_a_server_alone(play: Play) -> None:
    lines = "echo Traceback >&2; echo File x >&2; echo no module y >&2; exit 3"
    with pytest.raises(ServerError) as caught:
        play.run(play.host.list_offer(ServerEntry("broken", ("/bin/sh", "-c", lines))))
    assert str(caught.value).endswith("status 3; its last lines: Traceback | File x | no module y")
    assert caught.value.brief == "broken: the server exited with status 3: no module y"
    assert ServerError("died", "broken: it ended").brief == "broken: it ended"
