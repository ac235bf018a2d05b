"""A program on the screen for tests and for trying it by hand: a box of the simplest kind, and hands that take orders.

What is typed is an order: `put TEXT`, `flood N`, `live N`, `spin`, `stop`, `ask PROMPT`, `queue N`, `away`, `page N`,
`edit`, `fail`, `leave`; anything else is put as it is. With `--stream SECONDS` it writes numbered lines by itself.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import Any, cast

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import BufferControl, Window
from prompt_toolkit.layout.processors import BeforeInput

from nexus_cli.commands import discover
from nexus_cli.commands.help import KEYS
from nexus_cli.ui.asked_question import AskedQuestion
from nexus_cli.ui.input.box import InputBox
from nexus_cli.ui.input.editor import edit_text
from nexus_cli.ui.input.paste import TypedMessage
from nexus_cli.ui.render.theme import Theme
from nexus_cli.ui.repl.pager import show_in_pager
from nexus_cli.ui.screen.screen import Screen


def make_box(folder: Path) -> InputBox:
    """Return the real input box of a project without files and with all commands."""
    return InputBox(
        folder=folder,
        project=folder,
        commands=discover,
        desk=lambda: cast(Any, object()),
        history=folder / "history",
        vi=False,
    )


class PlainBox:
    """An input box without anything."""

    def __init__(self) -> None:
        self.buffer = Buffer(multiline=True)
        self.bindings = KeyBindings()
        self.container = Window(
            BufferControl(self.buffer, [BeforeInput("> ")]), wrap_lines=True, dont_extend_height=True
        )

    @property
    def empty(self) -> bool:
        return not self.buffer.text

    @property
    def completing(self) -> bool:
        return self.buffer.complete_state is not None

    @property
    def menu_open(self) -> bool:
        return self.completing

    def accept_completion(self) -> bool:
        self.buffer.complete_state = None
        return False

    def break_line(self) -> bool:
        return False

    def take(self) -> TypedMessage:
        text = self.buffer.text
        self.buffer.reset()
        return TypedMessage(text, text)

    def attach(self, app: Application[Any]) -> None:
        pass

    def fill(self, text: str) -> None:
        self.buffer.text = text
        self.buffer.cursor_position = len(text)


class PlainController:
    """Remembers what the keys did, shows what it is told to show."""

    def __init__(self) -> None:
        self.running = False
        self.moving = False
        self.said: list[str] = []
        """What was done, in order."""
        self.lines: list[str] = []
        self.waits = ""
        self.waiting: list[str] = []
        self.asked = 0
        """How often live lines were rendered."""
        self.screen: Any = None

    def submit(self, typed: TypedMessage) -> None:
        self.said.append(f"entered {typed.text!r}")

    def enqueue(self, typed: TypedMessage) -> None:
        self.said.append(f"queued {typed.text!r}")
        self.waiting.append(typed.text)

    def take_back(self) -> str:
        if not self.waiting:
            return ""
        self.said.append("taken back")
        return self.waiting.pop()

    def detach(self) -> bool:
        return False

    def edit_last(self) -> None:
        self.said.append("edits")

    def interrupt(self, *, gently: bool = False) -> None:
        self.said.append("stopped" if gently else "interrupted")

    def request_exit(self, *, asks: bool = False) -> None:
        self.said.append("left")
        self.screen.leave()

    keys = KEYS

    def cycle_level(self) -> None:
        self.said.append("level")

    def release_workers(self) -> None:
        self.said.append("released")

    def toggle_thinking(self) -> None:
        self.said.append("thinking")

    def show_last_output(self) -> None:
        self.said.append("output")

    def live(self, rows: int) -> list[str]:
        self.asked += 1
        return self.lines[-rows:]

    def spinner(self) -> str:
        return self.waits

    def queued(self) -> list[str]:
        return self.waiting

    def status(self, width: int) -> str:
        return "model  edit  ~/work  12 of 184k  $0.02"[:width]


class OrderedController(PlainController):
    """Does what the person types."""

    tasks: set[asyncio.Task[None]]

    def __init__(self) -> None:
        super().__init__()
        self.tasks = set()
        self.began = time.monotonic()

    def spinner(self) -> str:
        return f"* waiting for the model {time.monotonic() - self.began:.1f} s" if self.moving else ""

    def status(self, width: int) -> str:
        return f"{width + 1} columns  edit  ~/work  12 of 184k"[:width]

    def interrupt(self, *, gently: bool = False) -> None:
        self.running = self.moving = False
        self.screen.put("[interrupted]\n")

    def submit(self, typed: TypedMessage) -> None:
        order, _, rest = typed.text.partition(" ")
        match order:
            case "flood":
                for number in range(int(rest)):
                    self.screen.put(f"flood {number}\n")
            case "live":
                self.lines = [f"\x1b[36mlive {n}\x1b[0m " + "x" * (n * 7) for n in range(int(rest))]
            case "spin":
                self.running = self.moving = True
            case "stop":
                self.running = self.moving = False
            case "queue":
                self.waiting = [f"then: words {n}" for n in range(int(rest))]
            case "ask":
                self._later(self._ask(rest))
            case "away":
                self._later(self._away())
            case "page":
                text = "\n".join(f"paged {number}" for number in range(int(rest)))
                self._later(show_in_pager(self.screen, text))
                self._later(show_in_pager(self.screen, text))
            case "edit":
                self._later(self._edit())
            case "fail":
                raise RuntimeError("a failure")
            case "leave":
                self.screen.leave()
            case _:
                self.screen.put(f"{typed.text}\n")
        self.screen.invalidate()

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _ask(self, prompt: str) -> None:
        answer = await self.screen.question(AskedQuestion(f"{prompt}: ", text="\x1b[1mwrites a file\x1b[0m\n"))
        self.screen.put(f"answer {answer!r}\n")

    async def _away(self) -> None:
        async def work() -> None:
            process = await asyncio.create_subprocess_exec("sh", "-c", "echo away; read line; echo got $line")
            await process.wait()

        self.screen.put("before\n")
        await self.screen.outside(work)

    async def _edit(self) -> None:
        text = await self.screen.outside(lambda: edit_text("text"))
        self.screen.put(f"edited {text!r}\n")

    async def stream(self, seconds: float) -> None:
        number, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            self.screen.put(f"line {number:05} " + "-" * (number % 90) + "\n")
            self.lines = [f"live {n} of {number} " + "=" * (number % 70) for n in range(number % 5)]
            self.screen.invalidate()
            number += 1
            await asyncio.sleep(0.02)
        self.lines = []
        self.screen.put(f"end after {number}\n")


async def main() -> None:
    controller, box = OrderedController(), cast("InputBox", PlainBox())
    screen = controller.screen = Screen(box, Theme())
    screen.put("ready\n")
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, screen.leave)
    if "--spin" in sys.argv:
        controller.running = controller.moving = True
    if "--stream" in sys.argv:
        controller._later(controller.stream(float(sys.argv[sys.argv.index("--stream") + 1])))
    try:
        await screen.run(controller)
    except (OSError, EOFError) as error:
        print(f"gone: {type(error).__name__}", file=sys.stderr)
    except RuntimeError as error:
        print(f"failed: {error}", file=sys.stderr)
    print("bye")


if __name__ == "__main__":
    asyncio.run(main())
