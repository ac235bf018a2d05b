"""The command of contributors that writes what the tests compare with."""

from __future__ import annotations

import check
import pytest


def test_every_recording_has_its_script() -> None:
    for name, (script, *_) in check.RECORDINGS.items():
        assert '__name__ == "__main__"' in (check.ROOT / script).read_text(encoding="utf-8"), name


def test_only_the_named_recordings_are_written_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    def note(name: str, words: object) -> bool:
        begun.append(name)
        return True

    monkeypatch.setattr(check, "run", note)
    assert check.main(["renew", "budget", "start"]) == 0 and begun == ["start", "budget"]
    assert check.main(["renew"]) == 0 and begun[2:] == list(check.RECORDINGS)


def test_a_wrong_name_writes_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(check, "run", lambda *_: pytest.fail("nothing is written"))
    assert check.main(["renew", "outputs", "screens"]) == 2
    assert "screens is not a recording; there are: start" in capsys.readouterr().err
