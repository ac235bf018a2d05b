"""`nexus why`: a decision of a run, looked up afterwards by another process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from program.stage import calls, stage


def test_a_refused_call_is_explained_by_its_id_as_in_denied(tmp_path: Path) -> None:
    script: list[Any] = [calls(("bash", {"command": "touch made"}), ("bash", {"command": "ls"})), "done"]
    with stage(tmp_path, script) as place:
        (denied,) = place.ask("--json", "go").result["denied"]
        value = place.run("why", denied["id"], "--json").result
        listed = place.run("why", "--json").result
        text = place.run("why", denied["id"])
        unknown = place.run("why", "zzz")
    assert not (place.folder / "made").exists()
    assert (value["decision"], value["level"], value["profile"]) == ("ask", "ask", "write")
    assert (value["rule"], value["from"], value["answer"], value["tool"]) == (None, "level ask", None, "bash")
    assert value["parts"][0]["command"] == ["touch", "made"] and value["subject"] == "touch made" and value["at"]
    assert [row["decision"] for row in listed["decisions"]] == ["ask", "allow"]
    assert listed["decisions"][1]["from"] == "built in" and listed["session"] == value["session"]
    assert "nobody could be asked" in text.text and "level ask" in text.text and text.status == 0
    assert unknown.status == 2 and "call zzz: there is no such call in session" in unknown.told[0]
