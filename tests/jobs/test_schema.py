"""The job: turn a log into JSON that a script reads, with `nexus ask --schema`.

The script must get one JSON document of the promised form or an exit status other than 0, whatever the model writes
around it, and whatever the model gets wrong. What it costs is bounded: two repairs.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from program.stage import Done, Stage, calls, end, stage, until
from search import sample

LOG = """\
2026-03-01 10:00:01 ERROR db: connection refused
2026-03-01 10:00:07 INFO  web: GET / 200
2026-03-01 10:01:13 ERROR web: upstream timed out
"""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"service": {"type": "string"}, "count": {"type": "integer"}},
                "required": ["service", "count"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["errors"],
    "additionalProperties": False,
}
RIGHT = {"errors": [{"service": "db", "count": 1}, {"service": "wéb", "count": 1}]}
WRONG = {"errors": [{"service": "db", "count": "one"}]}
NATIVE = "openai/gpt-4o"


def says(*answers: Any) -> Callable[[Any], dict[str, Any]]:
    """A model that gives these answers in turn, the last one again and again."""
    left = list(answers)

    def model(body: Any) -> dict[str, Any]:
        answer = left.pop(0) if len(left) > 1 else left[0]
        return {"text": answer if isinstance(answer, str) else json.dumps(answer)}

    return model


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stage]:
    with stage(tmp_path, says(RIGHT)) as made:
        (made.folder / "errors.json").write_text(json.dumps(SCHEMA, indent=2))
        (made.folder / "app.log").write_text(LOG)
        yield made


def bodies(place: Stage) -> list[Any]:
    return [one.body for one in place.server.requests]


def last_words(body: Any) -> str:
    return str(body["messages"][-1]["content"])


def extract(place: Stage, *arguments: str, **more: Any) -> Done:
    return place.ask("--schema", "errors.json", *arguments, "count the errors by service", stdin=LOG.encode(), **more)


def test_a_repair_brings_no_earlier_sessions_that_share_only_its_own_words(place: Stage) -> None:
    place.script(says("Done."))
    assert place.ask("Correct the whole JSON document, the answer does not match").status == 0
    place.script(says(WRONG, RIGHT))
    assert extract(place).status == 0
    repair = last_words(bodies(place)[-1])
    assert "does not match the JSON Schema" in repair and "Earlier session" not in repair, repair


def test_a_script_reads_the_answer(place: Stage) -> None:
    place.script(says(f"Here it is:\n```json\n{json.dumps(RIGHT, indent=2)}\n```\nTwo services."))
    reader = f"'{sys.executable}' -c 'import json, sys; print(len(json.load(sys.stdin)[\"errors\"]))'"
    done = place.shell(f"nexus ask --schema errors.json 'count the errors by service' < app.log | {reader}")
    assert (done.status, done.text, done.told) == (0, "2\n", [])
    asked = last_words(bodies(place)[0])
    assert "upstream timed out" in asked and json.dumps(SCHEMA, separators=(",", ":")) in asked
    assert "response_format" not in bodies(place)[0], "nothing is known of this model's provider"
    assert place.run("replay").status == 0


def test_stdout_is_one_document_on_one_line_as_the_model_wrote_its_values(place: Stage) -> None:
    place.script(says(json.dumps({"b": [1.50, 12345678901234567890123, "é\u2028 \\u00e9"], "a": None}, indent=1)))
    done = place.ask("--schema", '{"type": "object"}', "x")
    assert done.status == 0 and done.stdout.count(b"\n") == 1 and done.stdout.endswith(b"}\n")
    assert done.text == '{"b": [1.5, 12345678901234567890123, "é\\u2028 \\\\u00e9"], "a": null}\n'


def test_the_object_of_json_and_the_last_line_of_stream_json_have_the_data(place: Stage) -> None:
    done = extract(place, "--json")
    assert done.result["data"] == RIGHT and json.loads(done.result["text"]) == RIGHT and done.result["ok"]
    streamed = extract(place, "--stream-json")
    last = json.loads(streamed.stdout.splitlines()[-1])
    assert last["type"] == "result" and last["data"] == RIGHT
    assert place.ask("--json", "x").result["data"] is None


def test_a_wrong_answer_is_repaired_in_the_same_session(place: Stage) -> None:
    place.script(says("No JSON today.", WRONG, RIGHT))
    done = extract(place, "--json")
    assert done.status == 0 and done.result["data"] == RIGHT and done.result["steps"] == 3
    first, second, third = bodies(place)
    assert second["messages"][: len(first["messages"])] == first["messages"], "the cached beginning stays"
    assert third["messages"][: len(second["messages"])] == second["messages"]
    assert first["tools"] == third["tools"]
    assert "$.errors[0].count: 'one' is not of type 'integer'" in last_words(third)
    assert '"additionalProperties"' not in last_words(third), "the schema is sent once"
    assert [line for line in done.told if "repair 1 of 2" in line and "not JSON" in line]
    assert place.run("replay").status == 0


def test_a_schema_that_is_never_met_ends_with_the_best_attempt(place: Stage) -> None:
    worse = {"errors": [{"service": 1, "count": "one"}], "more": 1}
    place.script(says(worse, WRONG, "I give up."))
    done = extract(place)
    assert done.status == 3 and len(bodies(place)) == 3
    assert json.loads(done.text) == WRONG and done.text.count("\n") == 1
    error, resume = done.told[-2:]
    assert (
        error.startswith("nexus: the answer does not match the schema: $.errors[0].count: 'one' is not")
        and "Resume with" in resume
    )
    assert "--schema errors.json -r " in resume
    place.script(says(worse, WRONG, "I give up."))
    result = extract(place, "--json").result
    assert result["error"]["kind"] == result["finish"] == "schema" and result["data"] is None and not result["ok"]
    assert json.loads(result["text"]) == WRONG
    place.script(says("  none\n"))
    assert extract(place).stdout == b"  none\n" and len(bodies(place)) == 3 + 3 + 2, "of a refusal one repair is enough"


@pytest.mark.parametrize("schema", sample(["false", '{"type": "string", "minLength": 5, "maxLength": 3}'], 2))
def test_a_schema_that_nothing_matches_costs_two_repairs(place: Stage, schema: str) -> None:
    place.script(says('"four"'))
    done = place.ask("--schema", schema, "x")
    assert done.status == 3 and done.text == '"four"\n' and len(bodies(place)) == 3


def test_limits_hold_over_the_repairs(place: Stage) -> None:
    place.script(says(WRONG))
    done = extract(place, "--max-steps", "2", "--json")
    assert done.status == 3 and done.kind == "limit" and done.result["steps"] == 2
    assert json.loads(done.result["text"]) == WRONG and done.result["data"] is None
    told = done.stderr.decode()
    assert "schema; requesting repair 1 of 2: " in told and "repair 2" not in told, "the second one is not sent"
    assert told.count("the answer does not match the schema") == 2


def test_tools_run_before_the_answer_and_only_the_last_step_is_held_to_the_schema(place: Stage) -> None:
    def reads(body: Any) -> dict[str, Any]:
        if body["messages"][-1]["role"] == "tool":
            return {"text": json.dumps(RIGHT)}
        return {**calls(("read_file", {"path": "app.log"})), "text": "I look first."}

    place.script(reads)
    done = place.ask("--schema", "errors.json", "count the errors in app.log", "--json")
    assert done.status == 0 and done.result["data"] == RIGHT and done.result["steps"] == 2


def native(place: Stage, *arguments: str, **more: Any) -> Done:
    return extract(place, "-m", NATIVE, *arguments, **more)


def test_the_provider_gets_the_schema_where_it_can_hold_the_answer_to_it(place: Stage) -> None:
    place.script(says("No JSON today.", RIGHT))
    done = native(place, "--json")
    assert done.status == 0 and done.result["data"] == RIGHT
    first, second = bodies(place)
    given = {"name": "answer", "schema": SCHEMA, "strict": True}
    assert first["response_format"] == second["response_format"] == {"type": "json_schema", "json_schema": given}
    assert "JSON Schema" not in last_words(first) and first["tools"]
    assert '"additionalProperties"' in last_words(second), "an endpoint that ignores the argument is told"
    assert place.run("replay").status == 0


def test_a_resumed_session_keeps_its_cached_beginning(place: Stage) -> None:
    assert place.ask("-m", NATIVE, "hello").status == 0
    assert native(place, "-c").status == 0
    assert "response_format" not in bodies(place)[1] and '"additionalProperties"' in last_words(bodies(place)[1])
    assert native(place).status == 0
    assert native(place, "-c").status == 0
    assert "response_format" in bodies(place)[2] and "response_format" in bodies(place)[3]


def test_a_schema_that_the_provider_would_refuse_is_told_in_words(place: Stage) -> None:
    open_object = {"type": "object", "properties": {"a": {"type": "string"}}}
    place.script(says({"a": "x"}))
    assert place.ask("-m", NATIVE, "--schema", json.dumps(open_object), "x").status == 0
    assert "response_format" not in bodies(place)[0] and json.dumps(open_object, separators=(",", ":")) in last_words(
        bodies(place)[0]
    )


MODEL = """\
print("this goes to stderr")
from pydantic import BaseModel

class Row(BaseModel):
    service: str
    count: int

class Errors(BaseModel):
    errors: list[Row]
"""


@pytest.mark.parametrize("named", sample(["shop.models:Errors", "shop.models.Errors"], 2))
def test_a_pydantic_model_of_the_project_is_imported_when_it_is_named(place: Stage, named: str) -> None:
    package = place.folder / "shop"
    package.mkdir()
    (package / "models.py").write_text(MODEL)
    (place.folder / "json.py").write_text("raise SystemExit('imported by accident')\n")
    refused = place.ask("--schema", named, "x")
    assert refused.status == 2 and "imported by accident" in refused.told[-1], "the project's own json is its own"
    (place.folder / "json.py").unlink()
    done = place.ask("--schema", named, "x")
    assert done.status == 0 and json.loads(done.text) == RIGHT, done
    assert '"title":"Errors"' in last_words(bodies(place)[0])


BAD: Sequence[tuple[str, str]] = [
    ("missing", "no such file"),
    ("nowhere:Thing", "No module named 'nowhere'"),
    ("os:path", "not a pydantic model"),
    (".", "directory"),
    ('{"a": 1, "a": 2}', "'a' twice"),
    ("[]", "not an object"),
    ('{"$ref": "#"}', "refers to itself without end"),
    ('{"$ref": "#/$defs/row"}', "the definition does not exist"),
    ('{"properties": {"a": {"$ref": "https://example.org/a.json"}}}', "does not download schemas"),
    ('{"pattern": "("}', "regex"),
    ('{"items":' * 200 + "{}" + "}" * 200, "64 levels"),
    (" ", "empty"),
]


@pytest.mark.parametrize(("schema", "why"), sample(BAD, 5), ids=[why for _, why in BAD])
def test_a_schema_that_cannot_be_used_is_one_line_and_nothing_is_sent(place: Stage, schema: str, why: str) -> None:
    done = place.ask("--schema", schema, "x")
    assert done.status == 2 and not bodies(place) and done.text == ""
    (line,) = done.told
    assert why in line and line.startswith("nexus: "), line


ODD = {
    "nan": '{"a": NaN}',
    "infinite": '{"a": 1e999}',
    "twice": '{"a": 1, "a": 2}',
    "digits": '{"a": ' + "9" * 5000 + "}",
    "deep array": "[" * 200_000,
    "deep object": '{"a":' * 500 + "1" + "}" * 500,
    "brackets": "{" * 500_000,
    "fences": "```\n" * 20_000,
}


@pytest.mark.parametrize("name", sample(ODD, 4, 1))
def test_an_answer_that_is_no_sound_json_is_repaired(place: Stage, name: str) -> None:
    place.script(says(ODD[name], {"a": 1}))
    done = place.ask("--schema", '{"type": "object"}', "--json", "x")
    assert done.status == 0 and done.result["data"] == {"a": 1} and done.result["steps"] == 2, done.told


@pytest.mark.matrix
def test_a_lone_surrogate_becomes_the_replacement_character(place: Stage) -> None:
    place.script(says('["\\ud800", {"\\udc00": 1}]'))
    done = place.ask("--schema", "true", "x")
    assert done.status == 0 and done.text == '["\ufffd", {"\ufffd": 1}]\n'


def test_ctrl_c_in_a_repair_keeps_the_session_and_prints_nothing(place: Stage) -> None:
    def stalls(body: Any) -> dict[str, Any]:
        repairs = "does not match" in last_words(body)
        return {"text": "no", **({"fault": {"kind": "stall", "seconds": 600, "after": 0}} if repairs else {})}

    place.script(stalls)
    child = place.begin("ask", "--schema", "errors.json", "x")
    try:
        until(lambda: len(bodies(place)) == 2)
        os.kill(child.pid, signal.SIGINT)
        stdout, stderr = child.communicate(timeout=120)
    finally:
        end(child)
    assert child.returncode == 130 and stdout == b""
    assert stderr.decode().splitlines()[-1].startswith("Resume with: nexus ask --schema errors.json -r ")


@pytest.mark.parametrize("how", sample(["signal", "timeout"], 2, 1))
def test_a_pattern_that_takes_for_ever_is_stopped_like_any_other_work(place: Stage, how: str) -> None:
    place.script(says(json.dumps("a" * 60 + "!")))
    limit = ["--timeout", "5"] if how == "timeout" else []
    child = place.begin("ask", "--schema", '{"pattern": "^(a+)+$"}', *limit, "x")
    try:
        if how == "signal":
            until(lambda: bool(bodies(place)))
            while child.poll() is None:
                os.kill(child.pid, signal.SIGINT)
                time.sleep(0.5)
        stdout, stderr = child.communicate(timeout=120)
    finally:
        end(child)
    assert child.returncode == (3 if how == "timeout" else 130), stderr
    best = json.dumps("a" * 60 + "!").encode()
    assert b"Traceback" not in stderr and stdout.strip() in (b"", best)[: 1 + (how == "timeout")]
