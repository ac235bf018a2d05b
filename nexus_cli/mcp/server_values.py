"""The values that the host process of MCP servers and the rest of nexus exchange. Imports nothing of the SDK."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from nexus_cli.core.json_value import JsonObject

Fault = Literal["start", "silent", "died", "protocol", "refused", "login", "too_large", "changed"]
"""Why a server did not answer: it could not be started or reached; said nothing in time; ended; broke the protocol;
answered with an error of the protocol; wants a login; answered with more than is read; has other tools than a call was
decided by."""


def token_path(data: Path, name: str, url: str) -> Path:
    """Return the path of the tokens of a server's login below the folder `data`."""
    key = hashlib.sha256(f"{name}\n{url}".encode()).hexdigest()[:24]
    return data / "mcp" / f"{key}.json"


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """A server as its settings describe it."""

    name: str
    command: tuple[str, ...] = ()
    """Program and arguments of a server on stdin and stdout; () for one with a URL."""
    url: str = ""
    env: tuple[str, ...] = ()
    """Names of variables of our environment that the server gets besides the harmless ones."""
    values: Mapping[str, str] = field(default_factory=dict)
    """Variables with values that the file itself has."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of each request; `${NAME}` in a value is a variable of our environment."""
    cwd: str = ""
    """Folder of the process; "" for the project."""
    start_seconds: float = 10.0
    call_seconds: float = 60.0
    """Time limit of a call; progress extends it."""
    source: Literal["personal", "plugin", "project", "editor"] = "personal"
    file: str = ""
    """The file that names it, in a form that can be shown."""
    display_target: str = ""
    """Its command or URL as the file has it, with `${NAME}` in place of the values of variables."""

    @property
    def transport(self) -> Literal["stdio", "http"]:
        """The way to the server."""
        return "http" if self.url else "stdio"

    @property
    def sha256(self) -> str:
        """Return the hash of what is started or reached: the key of its cached tools."""
        identity = {
            key: value for key, value in asdict(self).items() if key not in ("source", "file", "display_target")
        }
        return hashlib.sha256(json.dumps(identity, sort_keys=True, default=dict).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Target(ServerEntry):
    """A server as the host process starts or reaches it: `values` is its whole environment, and `headers` have the
    values of variables."""

    key: str = ""
    """The hash of the entry that this was made of."""
    tokens: str = ""
    """Path of the tokens of its login."""


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool as its server describes it."""

    name: str
    description: str
    parameters: JsonObject
    """JSON Schema of the arguments, as the server sent it."""
    hints: Mapping[str, bool] = field(default_factory=dict)
    """Annotations such as `readOnlyHint`: shown, never trusted by permission."""


@dataclass(frozen=True, slots=True)
class ServerPrompt:
    """A prompt of a server, which the person calls as a slash command."""

    name: str
    description: str
    arguments: tuple[tuple[str, bool], ...] = ()
    """Name of each, and True if the server requires it."""

    @property
    def usage(self) -> str:
        """The arguments in the form of `/help`: `FILE [DEPTH]`."""
        return " ".join(name.upper() if required else f"[{name.upper()}]" for name, required in self.arguments)


@dataclass(frozen=True, slots=True)
class ServerOffer:
    """Everything that a server lists."""

    tools: tuple[ServerTool, ...] = ()
    prompts: tuple[ServerPrompt, ...] = ()
    resources: tuple[tuple[str, str], ...] = ()
    """URI of each, or the template of a URI, with its name and description."""
    instructions: str = ""
    """What the server says about its use in the handshake."""
    left_out: tuple[str, ...] = ()
    """A line for each tool that cannot be offered, with the reason."""
    revision: str = ""
    """Another text once the server has said that its tools changed, or was started again."""


def describe_skipped(tool: str, why: str) -> str:
    """Return the line about a tool that cannot be offered."""
    return f"tool {tool} is skipped: {why}"


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """The result of a call, of a resource that was read, or of a prompt."""

    text: str
    is_error: bool = False
    """The tool itself reports a failure."""
    images: tuple[tuple[str, bytes], ...] = ()
    """Media type and content."""
    revision: str = ""
    """That of the server's tools at the answer, see `ServerOffer`."""


@dataclass(frozen=True, slots=True)
class ServerQuestion:
    """A server's question to the person in the middle of a call (elicitation)."""

    text: str
    parameters: JsonObject
    """JSON Schema of the answer, a flat object; {} for a question with a URL."""
    url: str


LAST_LINES = "; its last lines: "
"""Between the reason of an error and the last lines that the server wrote to stderr, which `LINE_MARK` separates."""
LINE_MARK = " | "


class ServerError(Exception):
    """A server harmed one call. The message is one line for the model and the person."""

    def __init__(self, fault: Fault, text: str) -> None:
        super().__init__(text)
        self.fault = fault

    @property
    def brief(self) -> str:
        """The message with the last one alone of the lines that the server wrote."""
        reason, _, lines = str(self).partition(LAST_LINES)
        return f"{reason}: {lines.rpartition(LINE_MARK)[2]}" if lines else reason


AskPerson = Callable[[ServerQuestion], Awaitable[JsonObject | None]]
"""Returns the answer, None if the person declines or nobody is there."""
