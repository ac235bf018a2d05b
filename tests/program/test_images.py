"""Images that cannot be sent, and those that a provider refuses: no session is lost to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from images import png
from program.stage import Seen, clean, play, stage

from nexus_cli.core.attachment import IMAGE_TOKENS

REFUSED = {"fault": {"status": 400, "message": "Could not process image"}}


def attached(root: Path) -> dict[str, Any]:
    with stage(root, ["seen"]) as place:
        (place.folder / "bad.png").write_bytes(png()[:8] + b"garbage" * 90)
        (place.folder / "wide.png").write_bytes(png(60_000, 60_000))
        (place.folder / "heavy.png").write_bytes(png(extra=4_000_000))
        made = [place.ask("-f", name, "look") for name in ("bad.png", "wide.png", "heavy.png")]
        return {"done": made, "requests": len(place.server.requests)}


def refused(root: Path) -> dict[str, Any]:
    with stage(root, [REFUSED, "no picture, then", "hello"]) as place:
        (place.folder / "odd.png").write_bytes(png())
        first = place.ask("--json", "-f", "odd.png", "look")
        second = place.ask("-c", "say hello")
        return {
            "first": first,
            "second": second,
            "bodies": [str(request.body["messages"]) for request in place.server.requests],
            "drops": place.run("drops").text,
            "replay": place.run("replay"),
        }


def refused_for_more(root: Path) -> dict[str, Any]:
    """The provider refuses every request, also those without the image; later it takes them."""
    with stage(root, [REFUSED, REFUSED]) as place:
        (place.folder / "odd.png").write_bytes(png())
        first = place.ask("-f", "odd.png", "look")
        place.script(["hello"])
        second = place.ask("-c", "say hello")
        return {"first": first, "second": second, "last": str(place.server.requests[-1].body["messages"])}


def answered_before(root: Path) -> dict[str, Any]:
    with stage(root, ["a red dot", REFUSED]) as place:
        (place.folder / "good.png").write_bytes(png())
        place.ask("-f", "good.png", "look")
        second = place.ask("-c", "and now?")
        return {"second": second, "requests": len(place.server.requests), "drops": place.run("drops", "--json").result}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return play(tmp_path_factory.mktemp, attached, refused, refused_for_more, answered_before)


def test_an_image_that_every_provider_refuses_is_not_sent(seen: Seen) -> None:
    shown = seen["attached"]
    assert shown["requests"] == 0
    for done, why in zip(
        shown["done"], ("not a complete PNG", "60,000 x 60,000 pixels", "at most 3,900,000"), strict=True
    ):
        assert done.status == 2 and clean(done) and why in done.stderr.decode()


def test_an_image_that_the_provider_refuses_leaves_the_window_with_a_drop(seen: Seen) -> None:
    shown = seen["refused"]
    result = shown["first"].result
    assert shown["first"].status == 0 and result["text"] == "no picture, then" and result["steps"] == 1
    (drop,) = result["drops"]
    assert (drop["cause"], drop["what"]) == ("refused", "image odd.png")
    told = shown["first"].stderr.decode()
    assert clean(shown["first"]) and "odd.png" in told and "Could not process image" in told
    with_image, without, later = shown["bodies"]
    assert "image_url" in with_image and "image_url" not in without + later
    assert "odd.png" in without and "drop d1" in without
    assert (shown["second"].status, shown["second"].stdout) == (0, b"hello\n")
    assert "not accepted by the model" in shown["drops"] and shown["replay"].status == 0


@pytest.mark.matrix
def test_a_session_goes_on_after_a_refusal_for_another_reason_too(seen: Seen) -> None:
    shown = seen["refused_for_more"]
    assert shown["first"].status == 1 and shown["second"].status == 0
    assert "image_url" not in shown["last"]


@pytest.mark.matrix
def test_an_image_that_was_answered_stays(seen: Seen) -> None:
    shown = seen["answered_before"]
    assert shown["second"].status == 1 and shown["requests"] == 2 and shown["drops"]["drops"] == []


@pytest.mark.matrix
def test_a_model_whose_server_says_that_it_sees_nothing_is_sent_no_image(tmp_path: Path) -> None:
    with stage(tmp_path, ["I cannot see it.", "hello"]) as place:
        (place.folder / "red.png").write_bytes(png())
        env = {"OLLAMA_API_BASE": place.server.url, "NEXUS_MODEL": "ollama_chat/scripted"}
        priced, alone = (place.ask("--price", *more, "look", env=env) for more in (("-f", "red.png"), ()))
        first = place.ask("--json", "-f", "red.png", "look", env=env)
        second = place.ask("-c", "say hello", env=env)
        replay = place.run("replay", env=env)
    assert (first.status, second.status, replay.status) == (0, 0, 0) and clean(first)
    assert [(drop["cause"], drop["what"]) for drop in first.result["drops"]] == [("refused", "image red.png")]
    assert "image red.png" in first.stderr.decode() and "not accepted by the model" in first.stderr.decode()
    messages = [message for request in place.server.requests for message in request.body["messages"]]
    assert not any(message.get("images") for message in messages)
    assert any("this model does not accept images" in str(message) for message in messages), "the model is told of it"
    assert priced.result["input"] - alone.result["input"] < IMAGE_TOKENS // 2, "a price is that of the request sent"
