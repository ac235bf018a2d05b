"""Each tool that is offered earns its tokens: a task that is solved with it fails without it, or takes more tokens.

Without a tool the model tries the next best that it has: the steps of the case, else those of the task. Every run of
the suite plays a third of the cases; `HYPOTHESIS_PROFILE=search` plays all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from zlib import crc32

import pytest
from program.stage import MODEL, PRICED, QUICK, Done, Stage, stage
from program.terminal_run import TerminalRun
from programs import need
from search import SEARCHES, sample
from tasks.styles import GIVES_UP, Player, careful
from tasks.task import Task, load, split_turns

from nexus_cli.core.memory import FactMerger
from nexus_cli.core.message import USE_TOOL
from nexus_cli.core.services import Spaces
from nexus_cli.tools.registry import discover_tools

Steps = Sequence[Mapping[str, Any]]
PAGE = b"<html><body><h1>Ports</h1><p>The service listens on port <b>9443</b>.</p></body></html>"
REACHES_LOOPBACK = "from nexus_cli.tools import web_page\nweb_page.is_public = lambda address: True\n"
SMALL = f'[models."{MODEL}"]\nwindow = 20000\nmax_output = 3000\ninput_price = 2.0\noutput_price = 8.0\n'
CONF = {"app.conf": "port = 80\n"}
SET_PORT = {"edit": "app.conf", "old": "port = 80", "new": "port = 9443"}
IS_SET = "grep -qx 'port = 9443' app.conf"
MODULES = {f"m{n}.py": "".join(f"def f{n}_{i}(a, b):\n    return a + b * {i}\n" for i in range(130)) for n in range(9)}
READS: Steps = [{"read": f"m{n}.py"} for n in range(9)]
LEDGER = "audit the ledger export for m0"
LATER = {"prompt": "run the tests", "in": "2 hours"}


@dataclass(frozen=True)
class Case:
    """A task that needs a tool."""

    tool: str
    task: Task
    instead: Steps = ()
    """What a model does without the tool; by default it tries the same."""
    allow: str = "auto"
    settings: str = PRICED
    workers: Sequence[Task] = ()


def made(name: str, prompt: str, check: str, steps: Steps, reply: str = "Done.", **files: str) -> Task:
    """Return a task that scripted models alone can play."""
    return Task(name, split_turns(prompt, steps, reply), files, check)


def worker(prompt: str, steps: Steps, reply: str) -> Task:
    """Return the task of a worker."""
    return made("worker", prompt, "", steps, reply)


GREETING = "".join(f"GREETING_{n} = 'hello {n}'\n" for n in range(120))
COUNT = "Which of m0.py to m8.py defines f7_99? Answer with its name."
TRANSLATE = "Write greetings.py in capitals."
CAPITALS = GREETING.upper()
CASES = (
    Case("bash", load("script_modes")),
    Case(
        "read_file",
        load("pdf_specification"),
        [
            {"run": "pdftotext spec.pdf - || strings spec.pdf"},
            {
                "run": 'python3 -c \'import re, zlib; d = open("spec.pdf", "rb").read(); '
                'print([zlib.decompress(x) for x in re.findall(rb"stream\\n(.*?)\\nendstream", d, re.S)])\''
            },
            {"knows": "The limit is 42."},
            {"edit": "limit.txt", "old": "limit 10", "new": "limit 42"},
        ],
    ),
    Case(
        "edit_file",
        load("long_file"),
        [
            {"grep": "part_4321", "path": "parts.py"},
            {"run": "sed -i 's/return 4321/return 0/' parts.py"},
        ],
        "edit",
    ),
    Case(
        "write_file",
        load("feature"),
        [
            {"read": "greet.py"},
            load("feature").turns[0].steps[1],
            {"run": "echo 'import unittest' > test_greet.py"},
            {"edit": "test_greet.py", "old": "", "new": "import unittest  # upper\n"},
        ],
        "edit",
    ),
    Case("grep", load("ignored_copies"), [{"run": "grep -rn fetch_all ."}, *load("ignored_copies").turns[0].steps[1:]]),
    Case(
        "glob",
        load("ignored_copies"),
        [
            load("ignored_copies").turns[0].steps[0],
            {"run": "find . -name settings.yaml"},
            *load("ignored_copies").turns[0].steps[2:],
        ],
    ),
    Case(
        "jobs",
        load("setup_dialog"),
        [
            {"run": "python3 -u setup.py < <(echo shop)"},
            {"run": "python3 -u setup.py < <(printf 'shop\\npo4hs\\n')"},
            {"knows": "The key is SHOP-8473"},
        ],
    ),
    Case(
        "recall",
        load("one_time_report"),
        [
            {"run": "bash report.sh"},
            {"run": "bash report.sh | grep checksum"},
            {"knows": "checksum 90125"},
        ],
    ),
    Case("remember", load("remembered")),
    Case("search_memory", load("remembered")),
    Case(
        "context",
        made(
            "budget",
            "Write into budget.txt how many tokens of context you may use in all.",
            "grep -qx 112000 budget.txt",
            [
                {"tool": "context"},
                {"knows": "112,000 tokens"},
                {"write": "budget.txt", "text": "112000\n"},
            ],
            **CONF,
        ),
    ),
    Case(
        "todo",
        made(
            "modules",
            "Do what TODO.md says, then read all modules. Write what is left into left.txt.",
            "[ -s left.txt ]",
            [
                {"read": "TODO.md"},
                {"tool": "todo", "items": [{"text": "read the modules", "state": "doing"}, {"text": LEDGER}]},
                *READS,
                {"knows": LEDGER},
                {"write": "left.txt", "text": f"{LEDGER}\n"},
            ],
            **MODULES,
            **{"TODO.md": f"1. read the modules\n2. {LEDGER}\n"},
        ),
        [
            {"read": "TODO.md"},
            *READS,
            {"read": "TODO.md"},
            {"knows": LEDGER},
            {"write": "left.txt", "text": f"{LEDGER}\n"},
        ],
        settings=SMALL,
    ),
    Case(
        "fetch",
        made(
            "page",
            "Set the port in app.conf to that of {site}/ports.html.",
            IS_SET,
            [
                {"tool": "fetch", "url": "{site}/ports.html"},
                {"knows": "9443"},
                SET_PORT,
            ],
            **CONF,
        ),
        [{"run": "curl -sS -m 5 {site}/ports.html"}, {"knows": "9443"}, SET_PORT],
    ),
    Case(
        "wait_for",
        made(
            "ready",
            "Once {site}/ready answers, set the port in app.conf to 9443.",
            IS_SET,
            [
                {"tool": "wait_for", "url": "{site}/ready"},
                {"knows": "answered 200"},
                SET_PORT,
            ],
            **CONF,
        ),
        [{"run": "curl -sS -m 5 {site}/ready"}, {"knows": "listens"}, SET_PORT],
    ),
    Case(
        "plan",
        made(
            "later",
            "Run the tests in two hours.",
            'grep -q plan-1 <<< "$REPLY"',
            [
                {"tool": "plan", "action": "add", **LATER},
                {"knows": "plan-1"},
            ],
            "It is planned as plan-1.",
            **CONF,
        ),
    ),
    Case(
        "agent",
        made(
            "delegated",
            f"{COUNT} Then set the port in app.conf to 9443.",
            f'{IS_SET}; grep -q m7.py <<< "$REPLY"',
            [
                {"tool": "agent", "task": "Find f7_99 by reading."},
                {"knows": "It is m7.py"},
                {"read": "app.conf"},
                SET_PORT,
                *[{"run": f"cat app.conf; echo {n}"} for n in range(5)],
            ],
            "m7.py",
            **CONF,
            **MODULES,
        ),
        [
            *READS,
            {"read": "app.conf"},
            SET_PORT,
            *[{"run": f"cat app.conf; echo {n}"} for n in range(5)],
        ],
        workers=[worker("Find f7_99 by reading.", READS, "It is m7.py")],
    ),
    Case(
        "agents",
        made(
            "worktree",
            "Let a worker translate greetings.py to capitals in a worktree, and take its work over.",
            "grep -q 'HELLO 119' greetings.py",
            [
                {"tool": "agent", "task": TRANSLATE, "worktree": True},
                {"tool": "agents", "action": "apply", "agent": "w1"},
            ],
            **{"greetings.py": GREETING},
        ),
        [
            {"tool": "agent", "task": TRANSLATE, "worktree": True},
            {"read": "greetings.py"},
            {"write": "greetings.py", "text": CAPITALS},
        ],
        workers=[
            worker(TRANSLATE, [{"read": "greetings.py"}, {"write": "greetings.py", "text": CAPITALS}], "Written.")
        ],
    ),
)


class Page(BaseHTTPRequestHandler):
    """Answers each request with `PAGE`."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """The address of a server that no command in the sandbox reaches."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def offered() -> set[str]:
    """The tools of a plain session, with a person and without; `skill` is one of projects with skills, `forget` takes
    back what only a run that looks back proposes, and `use_tool` does nothing by itself."""
    tools = [one for one in discover_tools().values() if one.name not in ("skill", "forget", USE_TOOL)]
    return {one.name for one in tools if not {Spaces, FactMerger} & set(one.needs)}


def prepare(place: Stage, task: Task, settings: str, tools: set[str]) -> None:
    """Write the project, the settings, and the recipe `with` for sessions that have these tools alone."""
    recipe = place.settings(QUICK + settings).parent / "recipes" / "with.toml"
    recipe.parent.mkdir()
    recipe.write_text(f"[limits]\ntools = {sorted(tools)}\n")
    task.prepare(place.folder)


def play(root: Path, case: Case, site: str, without: bool) -> tuple[str, int]:
    """Return what the check says after the task was played, and the tokens of all requests."""
    task = case.task
    if without and case.instead:
        task = replace(task, turns=split_turns(task.turns[0].prompt, case.instead, task.turns[0].reply))
    turns = [
        replace(one, prompt=one.prompt.replace("{site}", site), steps=[fill(step, site) for step in one.steps])
        for one in task.turns
    ]
    task = replace(task, turns=turns)
    rules = f'[rules]\nallow = ["fetch({site})", "wait_for({site})"]\n'
    tokens = 0
    root.mkdir()
    with stage(root, Player([task, *case.workers], careful, None)) as place:
        prepare(place, task, rules + case.settings, offered() - ({case.tool} if without else set()))
        for turn in turns:
            options = ["--recipe", "with", "--allow", case.allow, "--json", *([] if turn.is_new else ["-c"])]
            done: Done = place.ask(*options, turn.prompt, bug=REACHES_LOOPBACK)
            assert done.status == 0, done
            tokens += done.result["usage"]["input"] + done.result["usage"]["output"]
        return task.find_fault(place.folder, done.result["text"]), tokens


def fill(step: Any, site: str) -> dict[str, Any]:
    """Return a step with the site's address."""
    return {key: value.replace("{site}", site) if isinstance(value, str) else value for key, value in step.items()}


@pytest.mark.matrix
@pytest.mark.parametrize(
    "case",
    sample([one for one in CASES if SEARCHES or crc32(one.tool.encode()) % 3 == 0], 3),
    ids=lambda case: case.tool,
)
def test_a_task_gets_worse_without_the_tool(case: Case, site: str, tmp_path: Path) -> None:
    need("bwrap")
    need("git")
    fault, tokens = play(tmp_path / "with", case, site, False)
    assert not fault, fault
    worse, more = play(tmp_path / "without", case, site, True)
    assert worse or more > tokens, (tokens, more)


@pytest.mark.matrix
def test_a_person_knows_what_no_file_says(tmp_path: Path) -> None:
    ask = {"tool": "ask_person", "questions": [{"question": "Which port?", "choices": ["8080", "8443"]}]}
    task = made("unclear", "Set the port in app.conf.", IS_SET, [ask, {"knows": "9443"}, SET_PORT], **CONF)
    for tools in (offered(), offered() - {"ask_person"}):
        root = tmp_path / str(len(tools))
        root.mkdir()
        with stage(root, Player([task], careful, None)) as place:
            prepare(place, task, PRICED, tools)
            arguments = ("ask", "--recipe", "with", "--allow", "auto", task.turns[0].prompt)
            with TerminalRun(*arguments, env=place.environment, cwd=place.folder) as run:
                if "ask_person" in tools:
                    run.expect("Which port")
                    run.sendline("9443")
                run.expect("Done" if "ask_person" in tools else GIVES_UP)
                run.read()
            assert bool(task.find_fault(place.folder, "")) == ("ask_person" not in tools)


def test_every_tool_that_is_offered_has_such_a_task() -> None:
    assert {case.tool for case in CASES} | {"ask_person"} == offered()
