"""The job: "fetch the price list and check it", every night, by a model that may not reach the network.

The first run is refused and says what lets it through: that is pasted as it is printed. It opens this command alone.
"""

from __future__ import annotations

import re
import shlex
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from program.stage import Done, Stage, calls, stage
from programs import need

LIST = b"tea 3\ncoffee 4\n"


class Prices(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(LIST)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Prices) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


def night(place: Stage, command: str, *options: str) -> tuple[Done, str]:
    """One run, in which the model fetches with `command`, then checks what came; the result of the last command."""
    steps = [
        ("bash", {"command": command, "network": True}),
        ("bash", {"command": "grep -c . prices.txt || echo nothing came"}),
    ]
    seen: list[Any] = []

    def model(body: Any) -> dict[str, Any]:
        seen.append(body)
        return calls(steps[len(seen) - 1]) if len(seen) <= len(steps) else {"text": "Done."}

    place.script(model)
    done = place.ask("--allow", "auto", *options, "fetch the price list and check it")
    return done, next(str(one["content"]) for one in reversed(seen[-1]["messages"]) if one["role"] == "tool")


def test_what_a_refused_command_names_lets_it_through_and_nothing_else(tmp_path: Path, address: str) -> None:
    need("curl")
    fetch = f"curl -s -o prices.txt {address}/list"
    with stage(tmp_path) as place:
        refused, checked = night(place, fetch)
        assert refused.status == 0 and "nothing came" in checked
        line = next(line for line in refused.told if "refused" in line)
        option = re.search(r"(--rule '[^']+') lets it run\.", line)
        assert option and "--allow all" not in line, line

        again, checked = night(place, fetch, "--json", *shlex.split(option[1]))
        assert not again.result["denied"] and checked.startswith("2"), (again, checked)
        assert (place.folder / "prices.txt").read_bytes() == LIST

        (place.folder / "prices.txt").unlink()
        other, checked = night(place, f"{fetch}?and=secrets", "--json", *shlex.split(option[1]))
        assert [row["subject"] for row in other.result["denied"]] == [f"{fetch}?and=secrets"] and "nothing" in checked
        wrong = place.ask("--rule", "curl *", "x")
        assert wrong.status == 2 and "--rule 'curl *'" in wrong.told[-1]


@pytest.mark.parametrize(
    ("call", "way"),
    [
        (("write_file", {"path": "prices.txt", "content": "tea\n"}), r"--rule 'write_file\([^)]*/prices.txt\)'"),
        (("bash", {"command": "touch prices.txt"}), r"--rule 'bash\(touch prices.txt\)'"),
    ],
)
def test_what_any_rule_would_allow_is_offered_for_one_run_first(tmp_path: Path, call: Any, way: str) -> None:
    with stage(tmp_path) as place:
        place.script([calls(call), {"text": "Done."}, calls(call), {"text": "Done."}])
        line = next(line for line in place.ask("write the list").told if "refused" in line)
        option = re.search(
            rf"\. ({way}) lets it run(?:, without network)?\. To always allow it here: nexus rules add --here ", line
        )
        assert option and line.endswith(("edit lets it run too.", "auto lets it run too, without network."))
        again = place.ask("--json", *shlex.split(option[1]), "write the list")
        assert again.result["denied"] == [] and (place.folder / "prices.txt").exists()
