"""The models that a server lists, with the windows, images, tools and prices that it states for them.

A server that the environment names, or one on loopback, has models that no table lists, and some servers cut a longer
prompt without an error. There is one record for each address and key. A server on loopback is restarted with other
models, and answers at once: each process asks it once, and waits. The answers of another machine are kept for a day;
it is asked in a thread, beside the import of litellm and the request, and nothing waits for it but a report.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import chain
from threading import Lock, Thread
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from nexus_cli.config.paths import places
from nexus_cli.config.private_file import replace_private_file
from nexus_cli.core.errors import ProviderError
from nexus_cli.core.json_value import JsonObject
from nexus_cli.core.request import ModelInfo
from nexus_cli.core.wire import as_table
from nexus_cli.provider.endpoint import address_from_env, is_loopback, resolve_endpoint
from nexus_cli.provider.model_names import split_model_name
from nexus_cli.provider.model_table import find_override, model_info

SECONDS = 1.0
"""Time limit of one question, after as many for the connection."""
KEPT_SECONDS, UNLISTED_SECONDS = 86_400.0, 600.0
"""Age of an answer after which its question is asked again; also for a model that the answer lacks."""
MAX_ANSWER = 4 * 1024 * 1024
"""Most bytes of an answer that are read."""
MAX_UNSET = 131_072
"""Most tokens for which Ollama is told to reserve memory where the model file sets no `num_ctx`."""
MAX_WINDOW = 1_000_000_000
"""A larger number is no window."""
PUBLIC_HOST = "api.openai.com"
"""Its list has names without figures, which the table has."""
_NUM_CTX = re.compile(r"^num_ctx[ \t]+([0-9]{1,9})[ \t]*$", re.MULTILINE)

Row = dict[str, Any]
"""What a server states of a model, by the names of `ModelInfo`; `owner` is its kind of server."""
Rows = Mapping[str, Row]


class ModelServer:
    """The record of one address, with the key for it: what the server there has stated of its models."""

    def __init__(self, base: str, key: str) -> None:
        self.base = base
        self._key = key
        self._is_near = is_loopback(base)
        digests = [hashlib.sha256(text.encode()).hexdigest()[:32] for text in (base, key)]
        self._file = places().cache / "servers" / f"{'-'.join(digests)}.json"
        self._lock = Lock()
        self._thread: Thread | None = None
        self._answers: dict[str, tuple[Rows, float]] = {}
        """By question: the rows of the newest answer, and its time in seconds since 1970."""
        if not self._is_near:
            with suppress(OSError, ValueError, TypeError):
                self._answers = dict(json.loads(self._file.read_bytes()))

    def state(self, path: str, name: str = "") -> Rows:
        """Return the rows of the answer to a question; {} if it was not answered yet."""
        return self._answers.get(_question(path, name), ({}, 0.0))[0]

    def describe(self, provider: str, name: str) -> Row:
        """Return the facts that the server has stated of a model."""
        paths = (_QUESTIONS[provider], *(_FURTHER.values() if provider == "openai" else ()))
        return {key: value for path in paths for key, value in self.state(path, name).get(name, {}).items()}

    def find_questions(self, provider: str, name: str) -> Iterator[str]:
        """Yield the paths of the questions about a model; the second one depends on the answer to the first."""
        yield _QUESTIONS[provider]
        row = self.describe(provider, name)
        if provider == "openai" and "window" not in row and (path := _FURTHER.get(str(row.get("owner")))):
            yield path

    def ask(self, paths: Iterable[str], name: str, *, waits: bool, saves: bool) -> bool:
        """Ask the questions about a model that have no answer, or one that is too old; return False while an answer is
        awaited that no older one stands in for. Blocks with `waits`, and for a server on loopback."""
        due = (path for path in paths if self._is_due(path, name))
        if (first := next(due, None)) is None:
            return True

        def ask_all() -> None:
            with self._lock:
                for path in chain((first,), due):
                    if self._is_due(path, name) and not self._ask(path, name, saves=saves):
                        break

        if waits or self._is_near:
            ask_all()
            return True
        if self._thread is None or not self._thread.is_alive():
            self._thread = Thread(target=ask_all, daemon=True)
            self._thread.start()
        return _question(first, name) in self._answers

    def _is_due(self, path: str, name: str) -> bool:
        rows, answered_at = self._answers.get(_question(path, name), ({}, 0.0))
        return time.time() - answered_at > (UNLISTED_SECONDS if name and name not in rows else KEPT_SECONDS)

    def _ask(self, path: str, name: str, *, saves: bool) -> bool:
        """Ask one question and record the answer; return False if the server is away. An answer that says nothing
        leaves the older rows."""
        root = self.base if path == LIST else self.base.removesuffix("/v1")
        answer = ask_json(root + path, {"model": name, "name": name} if path == SHOW else None, self._key)
        if answer is None:
            return False
        rows = _READERS.get(path, _read_list)(answer, name)
        self._answers[_question(path, name)] = rows or self.state(path, name), time.time()
        if rows and saves and not self._is_near:
            with suppress(OSError):
                replace_private_file(self._file, json.dumps(self._answers).encode())
        return True


_find_record = cache(ModelServer)
_statuses: dict[str, int] = {}
"""By address, the HTTP status of the newest answer."""


def served_model_info(
    name: str, overrides: Mapping[str, Mapping[str, object]], *, waits: bool = False, saves: bool = True
) -> ModelInfo:
    """Return the facts of a model as `model_info` does, with those that its server states; settings win.

    Blocks for a server on loopback that was not asked yet; for another one only with `waits`, else the facts are
    `pending` until it has answered. Unless it `saves`, no answer is kept for other processes.
    """
    info = replace(model_info(name, overrides), address=address_from_env(name))
    if info.provider not in _QUESTIONS or (server := _find_server(info.provider, info.name)) is None:
        return info
    override, row, is_told = find_override(name, overrides)[1], Row(), True
    if not info.window_key:
        bare = split_model_name(info.name)[1]
        is_told = server.ask(server.find_questions(info.provider, bare), bare, waits=waits, saves=saves)
        row = server.describe(info.provider, bare)
    stated = {key: value for key, value in row.items() if key in _STATED and key not in override}
    stated["blind"] = info.blind or (row.get("blind") is True and not {**stated, **override}.get("images"))
    runs_here = is_loopback(server.base) and (info.provider != "openai" or row.get("owner") in _FREE)
    if info.input_price is None and runs_here:
        stated = {"input_price": 0.0, "output_price": 0.0, **stated}
    is_listed = info.provider == "openai" and bool(info.input_price) and "input_price" not in {*stated, *override}
    is_known = info.known or "window" in stated
    return replace(info, **stated, known=is_known, list_price=is_listed, pending=not is_told)


def list_served(provider: str, base: str = "") -> list[str]:
    """Return the names, with `provider`, that the server at `base` lists, or the one in the environment; none without
    one. Blocks."""
    server = _find_server(provider, f"{provider}/", base) if provider in _QUESTIONS else None
    if server is None:
        return []
    path = VERSIONED if provider == "ollama_chat" else LIST
    server.ask((path,), "", waits=True, saves=True)
    return [f"{provider}/{name}" for name in server.state(path)]


def ask_json(url: str, body: object = None, key: str = "") -> Any:
    """Return the JSON that a model server answers at `url`, {} if it does not, None if none can be reached; with `body`
    by a POST."""
    from http.client import HTTPException  # noqa: PLC0415  (few models need it)

    from nexus_cli.core.proxy import open_connection, send_request  # noqa: PLC0415  (as above)

    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        opened = open_connection(url, SECONDS)
    except (OSError, ValueError):
        return None
    try:
        payload = None if body is None else json.dumps(body)
        with send_request(opened, time.monotonic() + SECONDS, headers, payload) as answer:
            _statuses[url] = answer.status
            return json.loads(answer.read(MAX_ANSWER)) if answer.status == 200 else {}
    except (OSError, HTTPException, ValueError, RecursionError):
        return {}


def find_refusal(base: str) -> int:
    """Return the HTTP status with which the server at `base` has refused to list its models to this process for lack of
    a key, 0 if it has not."""
    return next((_statuses[url] for path in (LIST, VERSIONED) if _statuses.get(url := base + path) in (401, 403)), 0)


def _find_server(provider: str, name: str, base: str = "") -> ModelServer | None:
    """Return the record of the server of a model, at `base` or the address in the environment; None for a hosted
    one."""
    try:
        endpoint = resolve_endpoint(name)
    except ProviderError:
        return None
    if provider == "openai" and urlsplit(endpoint.base or "").hostname in (None, PUBLIC_HOST):
        return None
    return _find_record((base or endpoint.base or "").rstrip("/"), endpoint.key or "")


def _question(path: str, name: str) -> str:
    """Return a path, with the name of the model if the answer is about it alone."""
    return f"{path} {name}" if path in (SHOW, PROPS) else path


def _read_shown(answer: object, name: str) -> Rows:
    """Read Ollama's facts: `num_ctx` of the model file, bounded by the length that the model was trained for."""
    table = as_table(answer)
    facts = as_table(table.get("model_info"))
    trained = max((_number(value) for key, value in facts.items() if key.endswith(".context_length")), default=0)
    chosen = max(map(int, _NUM_CTX.findall(str(table.get("parameters")))), default=0)
    window = min(filter(None, (trained, chosen or (trained and MAX_UNSET))), default=0)
    able = table.get("capabilities")
    return {name: {"blind": bool(able)} | _make_row(window, able) | _refuse_tools(able)}


def _read_props(answer: object, name: str) -> Rows:
    """Read llama.cpp's facts: the length of one slot."""
    window = _number(as_table(as_table(answer).get("default_generation_settings")).get("n_ctx"))
    return {name: {"blind": "modalities" in as_table(answer)} | _make_row(window, answer)}


def _read_list(answer: object, name: str) -> Rows:
    """Read a list: of vLLM, SGLang, LM Studio, llama.cpp, LiteLLM, or a gateway in the form of OpenRouter."""
    listed = as_table(answer).get("data")
    rows: dict[str, Row] = {}
    for row in map(as_table, listed if isinstance(listed, list) else ()):
        parts = [row, *(as_table(row.get(name)) for name in _PARTS)]
        least = [
            min(filter(None, (_number(part.get(key)) for part in parts for key in keys)), default=0)
            for keys in _LENGTHS
        ]
        rows[str(row.get("id") or row.get("model_name"))] = {
            **_make_row(least[0] or least[1], row, {**parts[-1], **parts[-2], **row}),
            **_refuse_tools(row.get("supported_parameters")),
            **({"owner": row["owned_by"]} if row.get("owned_by") else {}),
            "blind": "state" in row and row.get("type") == "llm",  # LM Studio; "vlm" sees
        }
    return rows


def _make_row(window: int, stated: object, prices: JsonObject = MappingProxyType({})) -> Row:
    """Return a row of what is `stated`: facts that are absent are not in it."""
    row: Row = {"window": window} if window else {}
    if _IMAGE_SUPPORT.search(json.dumps(stated)):
        row["images"] = True
    for key, names in _PRICES.items():
        price = next((_price(prices[name]) for name in names if name in prices), None)
        row |= {} if price is None else {key: price}
    return row


def _refuse_tools(able: object) -> Row:
    """Return the fact that a model takes no tools, if the list of what it is able to do lacks them."""
    return {"tools": False} if isinstance(able, list) and able and "tools" not in able else {}


def _price(value: object) -> float | None:
    """Return dollars per million tokens from dollars per token, which some gateways write as text."""
    try:
        price = round(float(value) * 1e6, 6)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return price if 0 <= price < MAX_WINDOW else None


_STATED = ("window", "images", "tools", "input_price", "output_price")
_IMAGE_SUPPORT = re.compile(r'(?<!\\)"(?:vision|image|vlm|supports_vision)"(?!: (?:false|null))')
"""Matches the JSON of what a server states of a model that takes images."""
_PARTS = ("meta", "top_provider", "model_info", "pricing")
"""Objects in a row that have facts."""
_PRICES = {
    "input_price": ("input_cost_per_token", "prompt"),
    "output_price": ("output_cost_per_token", "completion"),
}
_LENGTHS = (
    ("loaded_context_length", "n_ctx"),
    ("max_model_len", "context_length", "context_window", "max_context_length", "max_input_tokens"),
)
"""Fields with the length with which the model is loaded, and with the most that the model, or its host, takes."""
LIST, VERSIONED, LOADED = "/models", "/v1/models", "/api/v0/models"
SHOW, PROPS, MODEL_INFO = "/api/show", "/props", "/model/info"
"""Paths that are asked: lists of models (Ollama's address has no version), LM Studio's own; the facts of Ollama about
one, of llama.cpp about the one that it has, and of LiteLLM about all."""
_READERS: Mapping[str, Callable[[object, str], Rows]] = {SHOW: _read_shown, PROPS: _read_props}
_QUESTIONS: Mapping[str, str] = {
    "ollama_chat": SHOW,
    "hosted_vllm": LIST,
    "lm_studio": LOADED,
    "llamafile": PROPS,
    "openai": LIST,
}
"""By provider: the question about one model."""
_FURTHER = {"library": SHOW, "organization_owner": LOADED, "llamacpp": PROPS, "openai": MODEL_INFO}
"""By `owned_by` of an OpenAI-compatible list: where Ollama, LM Studio, llama.cpp and LiteLLM state the window."""
_FREE = frozenset({"library", "organization_owner", "llamacpp", "vllm"})
"""Those whose models run where the server does. A gateway on this machine may ask for money elsewhere."""


def _number(value: object) -> int:
    return value if isinstance(value, int) and 1 < value < MAX_WINDOW else 0
