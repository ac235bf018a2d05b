"""Classify what litellm, the SDKs under it or the network raise into the kinds of `core.errors`, with a hint.

In this order: the network, the error body, the status. Class names decide only if nothing else does, since one status
comes in several classes. An overflow also has the two numbers that the provider names, so that the session can correct
its own count.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from nexus_cli.core.certificates import describe_certificate_error, find_certificate_error
from nexus_cli.core.errors import ProviderError, iterate_causes
from nexus_cli.core.proxy import ProxyError, find_proxy
from nexus_cli.provider.endpoint import address_from_env, base_variable, check_address_hint, set_key_hint, stored_name
from nexus_cli.provider.error_text import TRACE, find_error, format_error_line, parse_body
from nexus_cli.provider.model_names import LOCAL, SUBSCRIPTIONS, split_key_name, split_model_name
from nexus_cli.provider.model_table import HOW_TO_NAME, provider_of

N = r"([\d,]{2,})"
WORDINGS = re.compile(
    r"context_length_exceeded|exceed_context_size|maximum context length|maximum prompt length|maximum model length|"
    r"prompt is too long|input is too long|input length exceeds|too large for model with|exceeds? the context window|"
    r"exceed context limit|input token count.{0,40}exceeds|exceeds the available context|exceeded max context length|"
    r"input tokens exceed|context the overflows|context length of only|"
    r"reduce the length of the (messages|prompt|input)|request_too_large|larger than the (model's )?context",
    re.IGNORECASE,
)
LIMITS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"maximum context length (?:is|of) {N}",
        rf"maximum prompt length is {N}",
        rf"maximum model length of {N}",
        rf"tokens > {N} maximum",
        rf"exceed context limit: [\d,]+ \+ [\d,]+ > {N}",
        rf"too large for model with {N}",
        rf"maximum number of tokens allowed \(?{N}",
        rf"configured limit of {N}",
        rf"available context size \({N}",
        rf"context length of only {N}",
        rf'"n_ctx": ?{N}',
    )
]
COUNTS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\({N} (?:in the messages|of text input)",
        rf"messages resulted in {N}",
        rf"prompt is too long: {N} tokens",
        rf"exceed context limit: {N} \+",
        rf"prompt contains {N} tokens",
        rf"input token count \(?{N}",
        rf"request contains {N} tokens",
        rf"your request has {N} input tokens",
        rf"request \({N} tokens\) exceeds",
        rf"prompt \(length {N}\)",
        rf"keep the first {N} tokens",
        rf'"n_prompt_tokens": ?{N}',
        rf"you requested (?:about )?{N} tokens",
    )
]


def is_overflow(text: str) -> bool:
    """True if `text` reports that the request is larger than the model's window."""
    return WORDINGS.search(text) is not None


def _first(patterns: list[re.Pattern[str]], text: str) -> int | None:
    found = next((m for p in patterns if (m := p.search(text))), None)
    return int(found.group(1).replace(",", "")) if found else None


def overflow_numbers(text: str) -> tuple[int | None, int | None]:
    """Return the window and the tokens of the request from `text`, each None if it is missing."""
    return _first(LIMITS, text), _first(COUNTS, text)


def hint_for(kind: str, model: str, *, status: int | None = None, spent: bool = False) -> str:
    """Return the hint for a failure of `kind` with `model`; "" if there is none."""
    provider = provider_of(model)
    if spent and kind in ("auth", "rate_limit", "provider"):
        return f"Check the plan and the balance of the {provider} account, or choose another model"
    if kind == "auth":
        if status == 403 and provider in SUBSCRIPTIONS:
            return f"The {SUBSCRIPTIONS[provider]} subscription may not have {model}: `nexus model list`"
        if status == 403:
            key = stored_name(provider, split_key_name(model)[0])
            return f"Check the permissions of the key in {key} may use, or choose another model"
        if provider == "bedrock":
            return "Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, or AWS_BEARER_TOKEN_BEDROCK"
        return set_key_hint(provider, split_key_name(model)[0])
    if kind == "usage" and provider == "ollama_chat":
        return (
            f"`ollama pull {split_model_name(model)[1]}` fetches a model; `nexus model list` shows those that are there"
        )
    if kind == "usage":
        return HOW_TO_NAME
    if kind == "network":
        where = base_variable(provider)
        if provider in LOCAL:
            return f"Is the model server running? Its address is set by {where}"
        return "Check the connection" + (f" and {where}, if it is set" if where else "")
    return {
        "rate_limit": "Try again later",
        "overloaded": "Try again later, or choose another model",
        "overflow": "Compact the session, or choose a model with a larger window",
        "refused": "Rephrase the request, or choose another model",
        "provider": "Try again; if it keeps failing, choose another model",
    }.get(kind, "")


NETWORK_PACKAGES = frozenset({"httpx", "httpcore", "aiohttp", "anyio", "h11", "ssl"})
UNKNOWN_NAME = "was not found"
NEEDS_PROXY = "a network with a proxy needs HTTPS_PROXY (nexus docs network)"
PROXY_LOGIN = 407
"""The status with which a proxy wants a login."""
LOST = frozenset({"RemoteProtocolError", "ReadError", "ConnectionResetError", "ServerDisconnectedError"})
STALLS = frozenset({"ReadTimeout", "StallError"})
NETWORK_NAMES = frozenset({"APIConnectionError", "APITimeoutError"})
STATUS_OF_CODE = {
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "too_many_requests": 429,
    "insufficient_quota": 429,
    "RESOURCE_EXHAUSTED": 429,
    "overloaded_error": 529,
    "server_overloaded": 529,
    "service_unavailable": 503,
    "UNAVAILABLE": 503,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "UNAUTHENTICATED": 401,
    "permission_error": 403,
    "PERMISSION_DENIED": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "NOT_FOUND": 404,
    "api_error": 500,
    "server_error": 500,
    "internal_server_error": 500,
    "INTERNAL": 500,
}
NO_KEY = re.compile(
    r"api[_ ]key (?:not valid|client option must be set|not found)|missing credentials|missing \w+ api key|"
    r"invalid (?:x-)?api[ -]?key|incorrect api key|no api key",
    re.IGNORECASE,
)
NO_MODEL = re.compile(
    r"llm provider not provided|model_not_found|model .{0,80}(?:not found|does not exist|is not supported)|"
    r"(?:invalid|unknown|no such) model|not a valid model",
    re.IGNORECASE,
)
SAYS_MODEL = re.compile("model", re.IGNORECASE)
"""Matches a 404 about the model; another one from an address that was set is about the address."""
NO_TOOLS = re.compile(r"not support tool|support tool use|enable-auto-tool-choice", re.IGNORECASE)
"""Matches refusals of Ollama, OpenRouter and vLLM: the model, or its server as it was started, takes no tools."""
PACKAGE = re.compile(r"pip install (?:-\w+ |--\w+ )*[\"']?([\w.-]+(?:\[[\w,-]+\])?)")
PACKAGE_OF = {"google": "google-auth"}
"""Packages of modules that litellm may miss, if their names differ from the module's."""
NO_CREDENTIALS = re.compile(r"'NoneType' object has no attribute 'access_key'|Unable to locate credentials", re.I)
"""Matches the error of a request to Bedrock without credentials."""
NO_CREDIT = re.compile(r"insufficient_quota|credit balance|insufficient balance|billing_not_active|spend limit", re.I)
DAILY = re.compile(r"PerDay|per day", re.I)
TOO_LARGE = re.compile(r"Request too large .{0,200}Requested", re.I | re.S)
QUOTA = re.compile(r"exceeded your current quota", re.I)
PLAN = (NO_CREDIT, DAILY, TOO_LARGE, QUOTA)
"""Refusals that depend on the account's plan."""
FILTERED = re.compile(
    r"content[_ ](?:policy|filter|management)|ResponsibleAI|flagged|moderation|safety system|prohibited content", re.I
)
OVERLOADED = re.compile(r"overloaded|at capacity|over capacity", re.I)
TIMEOUT = re.compile(r"time[d]? ?-?out", re.I)
RETRY_DELAY = re.compile(r'retryDelay"?:\s*"?(\d+(?:\.\d+)?)s|try again in (\d+(?:\.\d+)?)s', re.I)
BROKEN_ANSWERS = (
    (json.JSONDecodeError, "the provider sent an event that is not JSON"),
    (UnicodeDecodeError, "the provider sent bytes that are no UTF-8"),
)


@dataclass(frozen=True, slots=True)
class ErrorFacts:
    """Facts gathered from an exception and its causes."""

    status: int | None
    text: str
    """The text of all messages, to be searched."""
    line: str
    """The one line to show."""
    code: str
    network: BaseException | None
    """The network's own exception among the causes."""
    headers: Mapping[str, str]


def _is_network(error: BaseException) -> bool:
    kind = type(error)
    if TRACE.search(str(error)):  # litellm's name for any failure inside it
        return False
    if kind.__name__ in NETWORK_NAMES or isinstance(error, OSError):
        return True
    return kind.__module__.partition(".")[0] in NETWORK_PACKAGES and kind.__name__ != "HTTPStatusError"


def _headers(error: BaseException) -> Mapping[str, str]:
    found: dict[str, str] = {}
    response = getattr(error, "response", None)
    for source in (getattr(response, "headers", None), getattr(error, "headers", None)):
        found.update(_lower(source))
    return found | _lower(getattr(error, "litellm_response_headers", None))


def _lower(headers: object) -> dict[str, str]:
    items = getattr(headers, "items", None)
    if not callable(items):
        return {}
    return {str(k).lower().removeprefix("llm_provider-"): str(v) for k, v in items()}


def _body(error: BaseException) -> Mapping[str, Any]:
    body = find_error(getattr(error, "body", None))
    return body or find_error(parse_body(str(getattr(error, "message", "") or error)))


def _status(error: BaseException) -> int | None:
    for holder in (error, getattr(error, "response", None)):
        status = getattr(holder, "status_code", None)
        if isinstance(status, int | str) and str(status).isdigit() and 400 <= int(status) < 600:
            return int(status)
    return None


def _code(body: Mapping[str, Any]) -> str:
    values = [body.get(key) for key in ("code", "type", "status")]
    known = next((v for v in values if isinstance(v, str) and v in STATUS_OF_CODE), None)
    number = next((v for v in values if isinstance(v, int) and 400 <= v < 600), None)
    return known or (str(number) if number else next((v for v in values if isinstance(v, str)), ""))


def read_facts(error: BaseException) -> ErrorFacts:
    """Collect status, text, code, network exception and headers of `error`."""
    links = list(iterate_causes(error))
    bodies = [body for link in links if (body := _body(link))]
    codes = [code for body in bodies if (code := _code(body))]
    code = next((c for c in codes if c in STATUS_OF_CODE), codes[0] if codes else "")
    said = STATUS_OF_CODE.get(code) or (int(code) if code.isdigit() else None)
    # The innermost one came over the wire; those around it are litellm's mapping of it.
    given = next((s for link in reversed(links) if (s := _status(link))), None)
    headers: dict[str, str] = {}
    for link in reversed(links):
        headers.update(_headers(link))
    said_in = [str(getattr(link, "message", "") or link) for link in links]
    text = "\n".join(dict.fromkeys([*said_in, *(json.dumps(dict(body), default=str) for body in bodies)]))
    messages = (body.get(key) for key in ("message", "detail") for body in bodies)
    message = next((said for said in messages if isinstance(said, str) and said), "")
    # An event inside a 200 has a status invented by litellm; the body is the provider's own.
    status = said if said and given in (None, 500) else given
    network = next((link for link in links if _is_network(link)), None)
    broken = next((words for link in links for kind, words in BROKEN_ANSWERS if isinstance(link, kind)), "")
    line = broken if broken and status is None else format_error_line(message or str(links[0]))
    return ErrorFacts(status, text, line, code, network, headers)


def retry_after(headers: Mapping[str, str], text: str = "", now: datetime | None = None) -> float | None:
    """Return the seconds to wait from the headers (`retry-after-ms`; `retry-after` in seconds or as a date) or the
    text."""
    for key, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(key, "").strip()
        if re.fullmatch(r"\d+(\.\d+)?", value):
            return float(value) * scale
    if headers.get("retry-after"):
        try:
            moment = parsedate_to_datetime(headers["retry-after"])
        except ValueError:
            return None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())
    found = RETRY_DELAY.search(text)
    return float(found.group(1) or found.group(2)) if found else None


def _is_refused(f: ErrorFacts) -> bool:
    named = f.code in ("content_filter", "content_policy_violation")
    return named or (f.status in (400, 403, 422, None) and FILTERED.search(f.text) is not None)


def _classify(f: ErrorFacts) -> tuple[str, bool]:
    """Return the kind, and True if a retry may help."""
    if f.network is not None or f.status == PROXY_LOGIN:
        return "network", True
    if (is_overflow(f.text) and f.status not in (401, 403, 404, 429)) or f.status == 413:
        return "overflow", False
    if f.status == 401 or NO_KEY.search(f.text) or NO_CREDENTIALS.search(f.text):
        return "auth", False
    if f.status == 402 or (f.status in (400, 403) and NO_CREDIT.search(f.text)):
        return "provider", False
    if _is_refused(f):
        return "refused", False
    if f.status == 403:
        return "auth", False
    if f.status == 404 or (f.status in (400, 422, None) and NO_MODEL.search(f.text)):
        return "usage", False
    if f.status == 429:
        return _classify_429(f)
    if f.status in (503, 529) or OVERLOADED.search(f.text):
        return "overloaded", True
    if f.status == 408:
        return "network", True
    inside = f.status is None or f.status >= 500
    return "provider", inside and not TRACE.search(f.text)


def _classify_429(f: ErrorFacts) -> tuple[str, bool]:
    """Return the kind of a 429, and True if a retry may help: a refusal that waiting cannot solve is not a rate
    limit."""
    if DAILY.search(f.text):
        return "rate_limit", False
    if NO_CREDIT.search(f.text) or TOO_LARGE.search(f.text):
        return "provider", False
    spent = QUOTA.search(f.text) and retry_after(f.headers, f.text) is None
    return ("provider", False) if spent else ("rate_limit", True)


def missing_package(error: BaseException) -> str:
    """Return the package whose absence caused `error`, or ""."""
    absent = next((link for link in iterate_causes(error) if isinstance(link, ImportError)), None)
    if absent is None:
        return ""
    advised = next((found[1] for link in iterate_causes(error) if (found := PACKAGE.search(str(link)))), "")
    module = absent.name or format_error_line(str(absent))
    return advised or PACKAGE_OF.get(module, module)


def _address(links: Sequence[BaseException]) -> tuple[str, str, int | None]:
    """Return scheme, host and port of the failed request; "" if no exception has one."""
    for link in reversed(links):
        try:
            request: Any = getattr(link, "request", None)  # httpx raises RuntimeError if there is none
            url = urlsplit(str(request.url))
        except (AttributeError, RuntimeError, ValueError):
            continue
        if url.hostname and not type(link).__module__.startswith("litellm"):
            return url.scheme, format_error_line(url.hostname), url.port
    return "", "", None


def _describe_network(f: ErrorFacts, error: BaseException, hint: str) -> tuple[str, str, bool]:
    """Return the line of a failure of the network, what to do about it, and True if a retry may help."""
    links = list(iterate_causes(error))
    scheme, host, port = _address(links)
    if refused := find_certificate_error(links):
        return *describe_certificate_error(refused, host or "the server"), False
    place, proxy = f"{host}:{port}" if port else host, None
    with suppress(ProxyError):
        proxy = find_proxy(scheme, host, port or (443 if scheme == "https" else 80)) if host else None
    if proxy is None:
        line = _network_line(error, f.line, f" to {place}" if place else "", place)
        return line, f"{hint}; {NEEDS_PROXY}" if line.endswith(UNKNOWN_NAME) else hint, True
    way = f"the proxy {proxy.name} ({proxy.variable})"
    hint = f"Check {proxy.variable}, http://USER:PASSWORD@HOST:PORT; for no proxy: NO_PROXY={host}"
    answered = next((link for link in links if type(link).__name__ == "ProxyError"), None)
    if answered is not None or f.status == PROXY_LOGIN:
        why = answered or f"{f.status} {f.line}"
        wants = "it does not accept its name and password" if proxy.headers else "it wants a name and a password"
        why = f"{wants} ({PROXY_LOGIN})" if str(PROXY_LOGIN) in str(why) else why
        return f"{way} refused the connection to {place}: {why}", hint, False
    if any(isinstance(link, ConnectionRefusedError) for link in links):
        return f"{way} cannot be reached: the connection was refused", hint, True
    return _network_line(error, f.line, f" to {place} through {way}", f"of {way}"), hint, True


def describe_unreachable(error: Exception, host: str) -> tuple[str, str]:
    """Return why no connection to `host` can be made, and what to do about it."""
    if isinstance(error, ProxyError):
        return str(error), "Set HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT"
    if refused := find_certificate_error((error,)):
        return describe_certificate_error(refused, host)
    return _network_line(error, str(error), f" to {host}", host), f"Check the connection; {NEEDS_PROXY}"


def _network_line(error: BaseException, line: str, to: str, name: str) -> str:
    kind = type(error).__name__
    links = list(iterate_causes(error))
    if any(isinstance(link, ConnectionRefusedError) for link in links) or "onnection refused" in line:
        return f"the connection{to} was refused"
    if "Timeout" in kind or TIMEOUT.search(str(error)):
        return f"the connection{to} timed out"
    text = "\n".join(str(link) for link in links)
    kinds = {type(link).__name__ for link in links}
    if "gaierror" in kinds or "ame or service not known" in text:
        return f"the server's name{' ' + name if name else ''} {UNKNOWN_NAME}"
    if kinds & LOST:
        return f"the connection{to} was lost"
    return format_error_line(str(error)) or f"the connection{to} failed"


def to_provider_error(
    error: BaseException, *, model: str, started: bool = False, stall_seconds: float = 0.0
) -> ProviderError:
    """Return `error` as a `ProviderError`, or as it is; once a first token `started`, nothing is transient.

    `stall_seconds` is the time without a byte after which the transport gave up reading.
    """
    if isinstance(error, ProviderError):
        return error
    package = missing_package(error)
    if package.partition(".")[0] == "litellm":
        return ProviderError(
            "internal", f"litellm cannot be imported: {format_error_line(str(error))}", "Reinstall nexus"
        )
    if package:
        why = f"{provider_of(model) or model} needs the package {package}, which is not installed"
        return ProviderError(
            "config", why, f"Install {package} into nexus's Python environment, or choose another model"
        )
    f = read_facts(error)
    kind, transient = _classify(f)
    spent = f.status == 402 or any(words.search(f.text) for words in PLAN)
    why, hint = f.line, hint_for(kind, model, status=f.status, spent=spent)
    if f.network is not None or f.status == PROXY_LOGIN:
        why, hint, transient = _describe_network(f, f.network or error, hint)
    if any(type(link).__name__ in STALLS for link in iterate_causes(error)):
        kind, why, transient = "network", f"no data for {stall_seconds:g} seconds", True
    if f.status == 404 and address_from_env(model, os.environ) and not SAYS_MODEL.search(f.text):
        hint = check_address_hint(provider_of(model))
    if NO_TOOLS.search(f.text):
        kind, hint, transient = "usage", "Choose another model, or start with --no-tools", False
    limit, counted = overflow_numbers(f.text) if kind == "overflow" else (None, None)
    return ProviderError(
        kind,
        why or type(error).__name__,
        hint,
        retry_after=retry_after(f.headers, f.text),
        started=started,
        transient=transient and not started,
        cut=transient and started,
        limit=limit,
        counted=counted,
        status=f.status,
    )
