"""The context window that a model server states for a model.

A server that a person runs has a window that no table lists, and some servers cut a longer prompt without an error. It
is asked once per process; a window in the settings is not asked for.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from nexus_cli.core.errors import ProviderError
from nexus_cli.core.request import ModelInfo
from nexus_cli.provider.endpoint import read_env_address, read_env_key, resolve_endpoint
from nexus_cli.provider.model_names import split_model_name
from nexus_cli.provider.model_table import model_info, setting_names

SECONDS = 2.0
"""Time limit of one question, after as many for the connection."""
MOST_ANSWER = 4 * 1024 * 1024
"""Most bytes of an answer that are read."""
MOST_UNSET = 131_072
"""Most tokens for which Ollama is told to reserve memory where the model file sets no `num_ctx`."""
MOST_WINDOW = 1_000_000_000
"""A larger number is no window."""
_NUM_CTX = re.compile(r"^num_ctx[ \t]+([0-9]{1,9})[ \t]*$", re.MULTILINE)

_known: dict[tuple[str, str], int] = {}


def served_model_info(name: str, overrides: Mapping[str, Mapping[str, object]]) -> ModelInfo:
    """Return the facts of a model as `model_info` does, with the window that its server states. Blocks for a server
    that was not asked yet."""
    info = model_info(name, overrides)
    if info.provider not in _WAYS or (info.known and info.provider == "openai"):
        return info
    if any("window" in overrides.get(one, ()) for one in setting_names(name)):
        return info
    window = _ask_once(info)
    return replace(info, window=window, known=True) if window else info


def ask_json(url: str, body: object = None, key: str = "") -> Any:
    """Return the JSON that a model server answers at `url`, {} if it does not, None if none can be reached; with `body`
    by a POST."""
    from http.client import HTTPConnection, HTTPException, HTTPSConnection  # noqa: PLC0415  (few models need it)

    from nexus_cli.core.bounded_call import shut_down_at  # noqa: PLC0415  (as above)

    place = urlsplit(url)
    connect = HTTPSConnection if place.scheme == "https" else HTTPConnection
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        connection = connect(place.hostname or "", place.port, timeout=SECONDS)
        try:
            connection.connect()
            with shut_down_at(connection.sock, time.monotonic() + SECONDS):
                connection.request(
                    "GET" if body is None else "POST", place.path, None if body is None else json.dumps(body), headers
                )
                answer = connection.getresponse()
                return json.loads(answer.read(MOST_ANSWER)) if answer.status == 200 else {}
        finally:
            connection.close()
    except (TimeoutError, HTTPException, ValueError, RecursionError):
        return {}
    except OSError:
        return None


def _ask_once(info: ModelInfo) -> int:
    try:
        given = read_env_address(info.provider, os.environ)
        if info.provider == "openai" and given is None:
            return 0
        where, own = resolve_endpoint(info.name, os.environ), read_env_key(info.provider, os.environ)
    except ProviderError:
        return 0
    base = (where.base or (given.text if given else "")).rstrip("/")
    place = (base, where.model)
    if place not in _known:
        path, read = _WAYS[info.provider]
        name, root = split_model_name(where.model)[1], base if path == LIST else base.removesuffix("/v1")
        body = {"model": name, "name": name} if path == SHOW else None
        answer = ask_json(root + path, body, where.key or (own.text if own else ""))
        if answer is None:
            return 0
        _known[place] = read(answer, name)
    return _known[place]


def _read_shown(answer: object, name: str) -> int:
    """Return `num_ctx` of the model file, bounded by the length that the model was trained for."""
    shown = _fields(answer)
    facts = _fields(shown.get("model_info"))
    trained = max((_number(value) for key, value in facts.items() if key.endswith(".context_length")), default=0)
    chosen = max(map(int, _NUM_CTX.findall(str(shown.get("parameters")))), default=0)
    return min(filter(None, (trained, chosen or (trained and MOST_UNSET))), default=0)


def _read_props(answer: object, name: str) -> int:
    """Return the length of one slot."""
    return _number(_fields(_fields(answer).get("default_generation_settings")).get("n_ctx"))


def _read_list(answer: object, name: str) -> int:
    """Return the length in the row of model `name`: vLLM's and SGLang's, a gateway's, or LM Studio's (with which the
    model is loaded, else the most that it can be)."""
    rows = _fields(answer).get("data")
    found: Iterator[Mapping[str, Any]] = map(_fields, rows if isinstance(rows, list) else ())
    row = next((row for row in found if row.get("id") == name), {})
    return next(filter(None, (_number(row.get(key)) for key in _LENGTHS)), 0)


_LENGTHS = ("max_model_len", "loaded_context_length", "max_context_length", "context_length")
"""Fields of a row with the length of the context, the one in force first."""
LIST, SHOW = "/models", "/api/show"
"""Paths that are asked: the list of models, and Ollama's facts about one."""
_WAYS: Mapping[str, tuple[str, Callable[[object, str], int]]] = {
    "ollama_chat": (SHOW, _read_shown),
    "hosted_vllm": (LIST, _read_list),
    "lm_studio": ("/api/v0/models", _read_list),
    "llamafile": ("/props", _read_props),
    "openai": (LIST, _read_list),
}


def _fields(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> int:
    return value if isinstance(value, int) and 1 < value < MOST_WINDOW else 0
