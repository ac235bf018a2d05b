"""Classify what litellm, the SDKs under it or the network raise into the kinds of `core.errors`, with a hint.

In this order: a setting that no library accepts, the network, then the first of `RULES` that fits the words of the body
and the status. Class names decide only if nothing else does, since one status comes in several classes. An overflow
also has the two numbers that the provider names, so that the session can correct its own count.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from nexus_cli.core.certificates import describe_certificate_error, find_certificate_error
from nexus_cli.core.duration import format_duration
from nexus_cli.core.errors import ProviderError, iterate_causes
from nexus_cli.core.proxy import ProxyError, find_proxy
from nexus_cli.provider.endpoint import address_from_env, base_variable, check_address_hint, set_key_hint, stored_name
from nexus_cli.provider.error_text import TRACE, find_error, format_error_line, parse_body
from nexus_cli.provider.model_names import LOCAL, SUBSCRIPTIONS, split_key_name, split_model_name
from nexus_cli.provider.model_table import HOW_TO_NAME, NO_TOOLS_HINT, provider_of

OVERFLOW = (
    r"context_length_exceeded|exceed_context_size|maximum context length|maximum prompt length|maximum model length|"
    r"prompt is too long|input is too long|input length exceeds|too large for model with|exceeds? the context window|"
    r"exceed context limit|input token count.{0,40}exceeds|exceeds the available context|exceeded max context length|"
    r"input tokens exceed|context the overflows|context length of only|"
    r"reduce the length of the (messages|prompt|input)|request_too_large|larger than the (model's )?context"
)
LIMITS = (
    r"maximum context length (?:is|of) #|maximum prompt length is #|maximum model length of #|tokens > # maximum|"
    r"exceed context limit: [\d,]+ \+ [\d,]+ > #|too large for model with #|maximum number of tokens allowed \(?#|"
    r'configured limit of #|available context size \(#|context length of only #|"n_ctx": ?#'
)
"""Where a refusal names the window; `#` stands for a number."""
COUNTS = (
    r"\(# (?:in the messages|of text input)|messages resulted in #|prompt is too long: # tokens|"
    r"exceed context limit: # \+|prompt contains # tokens|input token count \(?#|request contains # tokens|"
    r"your request has # input tokens|request \(# tokens\) exceeds|prompt \(length #\)|keep the first # tokens|"
    r'"n_prompt_tokens": ?#|you requested (?:about )?# tokens(?! \()'
)
"""Where it names the tokens of the request."""


def overflow_numbers(text: str) -> tuple[int | None, int | None]:
    """Return the window and the tokens of the request from `text`, each None if it is missing."""
    matches = (re.search(words.replace("#", r"(\d[\d,]+)"), text, re.I) for words in (LIMITS, COUNTS))
    limit, counted = (int(match[match.lastindex or 0].replace(",", "")) if match else None for match in matches)
    return limit, counted


@dataclass(frozen=True, slots=True)
class FailureRule:
    """One row of the table of failures. It fits an answer that has both one of `statuses` and `words`."""

    kind: str
    transient: bool
    """True if a retry may help."""
    statuses: Collection[int | None] = ()
    """HTTP statuses, None for an answer without one; () for any."""
    words: str = ""
    """A regular expression, to be found in what the provider says."""
    hint: str = ""
    """Its own hint, "" for that of the kind (`_hint_for`)."""
    fits_with_wait: bool = True
    """False if it does not fit where the provider says how long to wait."""

    def fits(self, facts: ErrorFacts) -> bool:
        """Return True if the rule is about these facts."""
        has_status = not self.statuses or facts.status in self.statuses
        may_wait = self.fits_with_wait or facts.wait is None
        return has_status and may_wait and re.search(self.words, facts.text, re.I) is not None


SPENT = "Check the plan and the balance of the {provider} account, or choose another model"
NO_CREDIT = r"insufficient_quota|credit balance|insufficient balance|billing_not_active|spend limit"
NO_KEY = (
    r"api[_ ]key (?:not valid|client option must be set|not found)|missing credentials|missing \w+ api key|"
    r"invalid (?:x-)?api[ -]?key|incorrect api key|no api key|"
    r"'NoneType' object has no attribute 'access_key'|Unable to locate credentials"
)
"""What providers say, and litellm of Bedrock."""
RULES = (
    FailureRule(
        "config",
        False,
        words="Invalid port: '|Unknown scheme for proxy URL",
        hint="Correct HTTP_PROXY, HTTPS_PROXY, ALL_PROXY or NO_PROXY (IPv6 addresses without brackets)",
    ),
    FailureRule(
        "config",
        False,
        words="no certificate or crl found",
        hint="Correct SSL_CERT_FILE, REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE: a file of PEM certificates",
    ),
    # Ollama, OpenRouter, vLLM and llama.cpp: the model, or its server as it was started, takes no tools.
    FailureRule(
        "usage",
        False,
        words="not support tool|support tool use|enable-auto-tool-choice|requires --jinja",
        hint=NO_TOOLS_HINT,
    ),
    FailureRule("overflow", False, (413,)),
    FailureRule("overflow", False, {None, *range(400, 600)} - {401, 403, 404, 429}, OVERFLOW),
    FailureRule("auth", False, (401,)),
    FailureRule("auth", False, words=NO_KEY),
    FailureRule("provider", False, (402,), hint=SPENT),
    FailureRule("provider", False, (400, 403), NO_CREDIT, SPENT),
    FailureRule(
        "refused",
        False,
        (400, 403, 422, None),
        r"content[_ ](?:policy|filter|management)|ResponsibleAI|flagged|moderation|safety system|prohibited content",
    ),
    FailureRule("auth", False, (403,)),
    FailureRule("usage", False, (404,)),
    FailureRule(
        "usage",
        False,
        (400, 422, None),
        r"llm provider not provided|model_not_found|model .{0,80}(?:not found|does not exist|is not supported)|"
        r"(?:invalid|unknown|no such) model|not a valid model",
    ),
    FailureRule("rate_limit", False, (429,), "PerDay|per day", SPENT),
    FailureRule("provider", False, (429,), rf"{NO_CREDIT}|Request too large [\s\S]{{0,200}}Requested", SPENT),
    FailureRule("provider", False, (429,), "exceeded your current quota", SPENT, fits_with_wait=False),
    FailureRule("rate_limit", True, (429,)),
    FailureRule("overloaded", True, (503, 529)),
    FailureRule("overloaded", True, words="overloaded|at capacity|over capacity"),
    FailureRule("network", True, (408,)),
    FailureRule("provider", False, words=TRACE.pattern),  # inside litellm
    FailureRule("provider", True, {None, *range(500, 600)}),
    FailureRule("provider", False),
)
"""The first that fits decides."""
OF_NETWORK = FailureRule("network", True)


def _hint_for(kind: str, model: str, status: int | None, wait: float | None) -> str:
    """Return the hint for a failure of `kind` with `model`, after which the provider asks for a `wait`."""
    again = "Try again " + (f"in {format_duration(wait)}" if wait and wait >= LONG_WAIT else "later")
    provider = provider_of(model)
    key_name, variable = split_key_name(model)[0], base_variable(provider)
    if kind == "auth" and status == 403:
        if provider in SUBSCRIPTIONS:
            return f"The {SUBSCRIPTIONS[provider]} subscription may not include {model}; see `nexus model list`"
        return f"Check the permissions of the key in {stored_name(provider, key_name)}, or choose another model"
    if kind == "auth" and provider == "bedrock":
        return "Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, or AWS_BEARER_TOKEN_BEDROCK"
    if kind == "usage" and provider == "ollama_chat":
        return f"Download the model with `ollama pull {split_model_name(model)[1]}`, or see `nexus model list`"
    if kind == "network" and provider in LOCAL:
        return f"Start the model server, or correct its address in {variable}"
    return {
        "auth": set_key_hint(provider, key_name),
        "usage": HOW_TO_NAME,
        "network": "Check the connection" + (f" and {variable}, if it is set" if variable else ""),
        "rate_limit": again,
        "overloaded": f"{again}, or choose another model",
        "overflow": "Compact the session, or choose a model with a larger window",
        "refused": "Rephrase the request, or choose another model",
        "provider": "Try again; if it keeps failing, choose another model",
    }[kind]


LONG_WAIT = 60.0
"""Seconds that a provider asks for and a person should know."""
NETWORK_PACKAGES = frozenset({"httpx", "httpcore", "aiohttp", "anyio", "h11", "ssl"})
UNKNOWN_NAME = "was not found"
NEEDS_PROXY = "behind a proxy, set HTTPS_PROXY (see `nexus docs network`)"
PROXY_LOGIN = 407
"""The status with which a proxy wants a login."""
LOST = frozenset({"RemoteProtocolError", "ReadError", "ConnectionResetError", "ServerDisconnectedError"})
STALLS = frozenset({"ReadTimeout", "StallError"})
NETWORK_NAMES = frozenset({"APIConnectionError", "APITimeoutError"})
STATUS_OF_CODE = {
    "content_filter": 400,
    "content_policy_violation": 400,
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
    **{str(status): status for status in range(400, 600)},
}
"""The status of an error event by its `code`, `type` or `status`."""
PACKAGE = re.compile(r"pip install (?:-\w+ |--\w+ )*[\"']?([\w.-]+(?:\[[\w,-]+\])?)")
PACKAGE_OF = {"google": "google-auth"}
"""Packages of modules that litellm may miss, if their names differ from the module's."""
BROKEN_ANSWERS = (
    (json.JSONDecodeError, "the provider sent an invalid response (not JSON)"),
    (UnicodeDecodeError, "the provider sent an invalid response (not UTF-8)"),
)


@dataclass(frozen=True, slots=True)
class ErrorFacts:
    """Facts gathered from an exception and its causes."""

    links: Sequence[BaseException]
    """The exception and its causes."""
    status: int | None
    text: str
    """The text of all messages, to be searched."""
    line: str
    """The one line to show."""
    wait: float | None
    """Seconds that the provider asks to wait."""

    @property
    def network(self) -> BaseException | None:
        """The network's own exception among the causes."""
        return next((link for link in self.links if _is_network(link)), None)

    def has(self, names: Collection[str]) -> bool:
        """Return True if a class of these names is among the causes."""
        return any(type(link).__name__ in names for link in self.links)


def _is_network(error: BaseException) -> bool:
    kind = type(error)
    if TRACE.search(str(error)):  # litellm's name for any failure inside it
        return False
    if kind.__name__ in NETWORK_NAMES or isinstance(error, OSError):
        return True
    return kind.__module__.partition(".")[0] in NETWORK_PACKAGES and kind.__name__ != "HTTPStatusError"


def _read_headers(error: BaseException) -> Iterator[tuple[str, str]]:
    response = getattr(error, "response", None)
    for holder, name in ((response, "headers"), (error, "headers"), (error, "litellm_response_headers")):
        if isinstance(headers := getattr(holder, name, None), Mapping):
            yield from ((str(key).lower().removeprefix("llm_provider-"), str(value)) for key, value in headers.items())


def _read_message(error: BaseException) -> str:
    return str(getattr(error, "message", "") or error)


def _read_status(error: BaseException) -> int | None:
    statuses = (getattr(holder, "status_code", None) for holder in (error, getattr(error, "response", None)))
    return next((status for status in statuses if isinstance(status, int) and 400 <= status < 600), None)


def read_facts(error: BaseException) -> ErrorFacts:
    """Collect status, text and wait of `error` and its causes."""
    links = list(iterate_causes(error))
    errors = (find_error(getattr(link, "body", None)) or find_error(parse_body(_read_message(link))) for link in links)
    bodies = [body for body in errors if body]
    codes = (STATUS_OF_CODE.get(str(body.get(key))) for body in bodies for key in ("code", "type", "status"))
    stated = next(filter(None, codes), None)
    # The innermost one came over the wire; those around it are litellm's mapping of it.
    wire_status = next(filter(None, map(_read_status, reversed(links))), None)
    headers = dict(pair for link in reversed(links) for pair in _read_headers(link))
    text = "\n".join([*map(_read_message, links), *(json.dumps(dict(body), default=str) for body in bodies)])
    messages = (body.get(key) for key in ("message", "detail") for body in bodies)
    parts = (part if isinstance(part, str) else json.dumps(part, default=str) for part in messages if part)
    # An event inside a 200 has a status invented by litellm; the body is the provider's own.
    status = stated if stated and wire_status in (None, 500) else wire_status
    broken = next((words for link in links for kind, words in BROKEN_ANSWERS if isinstance(link, kind)), "")
    line = broken if broken and status is None else format_error_line(next(parts, str(error)))
    return ErrorFacts(links, status, text, line, retry_after(headers, text))


def retry_after(headers: Mapping[str, str], text: str = "") -> float | None:
    """Return the seconds to wait from the headers (`retry-after-ms`; `retry-after` in seconds or as a date) or the
    text."""
    for key, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(key, "").strip()
        if re.fullmatch(r"\d+(\.\d+)?", value):
            return float(value) * scale
    if headers.get("retry-after"):
        try:
            moment = parsedate_to_datetime(headers["retry-after"]).replace(tzinfo=UTC)  # one of its forms names no zone
            return max(0.0, moment.timestamp() - time.time())
        except ValueError:
            return None
    match = re.search(r'(?:retryDelay"?:\s*"?|try again in )(\d+(?:\.\d+)?)s', text, re.I)
    return float(match[1]) if match else None


def _describe_missing(error: BaseException, links: Sequence[BaseException], model: str) -> ProviderError | None:
    """Return the error of a package that is not installed, None if this is not the cause."""
    absent = next((link for link in links if isinstance(link, ImportError)), None)
    if absent is None:
        return None
    module = absent.name or format_error_line(str(absent))
    if module.partition(".")[0] == "litellm":
        why = f"litellm cannot be imported: {format_error_line(str(error))}"
        return ProviderError("internal", why, "Reinstall nexus")
    advised = next((match[1] for link in links if (match := PACKAGE.search(str(link)))), "")
    package = advised or PACKAGE_OF.get(module, module)
    why = f"{provider_of(model) or model} needs the package {package}, which is not installed"
    return ProviderError("config", why, f"Install {package} into nexus's Python environment, or choose another model")


def _find_address(links: Sequence[BaseException]) -> tuple[str, str, int | None]:
    """Return scheme, host and port of the failed request; "" if no exception has one."""
    own_errors: list[Any] = [link for link in reversed(links) if not type(link).__module__.startswith("litellm")]
    for link in own_errors:
        with suppress(AttributeError, RuntimeError, ValueError):  # httpx raises RuntimeError if there is none
            url = urlsplit(str(link.request.url))
            if url.hostname:
                return url.scheme, format_error_line(url.hostname), url.port
    return "", "", None


def _describe_network(f: ErrorFacts, hint: str) -> tuple[str, str, bool]:
    """Return the line of a failure of the network, what to do about it, and True if a retry may help."""
    scheme, host, port = _find_address(f.links)
    if refused := find_certificate_error(f.links):
        return *describe_certificate_error(refused, host or "the server"), False
    error, place, proxy = f.network or f.links[0], f"{host}:{port}" if port else host, None
    with suppress(ProxyError):
        proxy = find_proxy(scheme, host, port or (443 if scheme == "https" else 80)) if host else None
    if proxy is None:
        line = _network_line(error, f" to {place}" if place else "", place)
        return line, f"{hint}; {NEEDS_PROXY}" if line.endswith(UNKNOWN_NAME) else hint, True
    proxy_label = f"the proxy {proxy.name} ({proxy.variable})"
    hint = f"Check {proxy.variable} (http://USER:PASSWORD@HOST:PORT); to bypass the proxy: NO_PROXY={host}"
    if f.status == PROXY_LOGIN or f.has({"ProxyError"}):
        why = next((str(link) for link in f.links if type(link).__name__ == "ProxyError"), f"{f.status} {f.line}")
        wants = "user name or password rejected" if proxy.headers else "user name and password required"
        why = f"{wants} ({PROXY_LOGIN})" if str(PROXY_LOGIN) in why else why
        return f"{proxy_label} did not connect to {place}: {why}", hint, False
    if f.has({"ConnectionRefusedError"}):
        return f"{proxy_label} cannot be reached: the connection was refused", hint, True
    return _network_line(error, f" to {place} through {proxy_label}", f"of {proxy_label}"), hint, True


def describe_unreachable(error: Exception, host: str) -> tuple[str, str]:
    """Return the reason that no connection to `host` can be made, and a remedy."""
    if isinstance(error, ProxyError):
        return str(error), "Set HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT"
    if refused := find_certificate_error((error,)):
        return describe_certificate_error(refused, host)
    return _network_line(error, f" to {host}", host), f"Check the connection; {NEEDS_PROXY}"


def _network_line(error: BaseException, to: str, name: str) -> str:
    links = list(iterate_causes(error))
    kinds, text = {type(link).__name__ for link in links}, "\n".join(map(str, links))
    if "ConnectionRefusedError" in kinds or "onnection refused" in text:
        return f"the connection{to} was refused"
    if "Timeout" in type(error).__name__ or re.search("timed? ?-?out", str(error), re.I):
        return f"the connection{to} timed out"
    if "gaierror" in kinds or "ame or service not known" in text:
        return f"the host name{' ' + name if name else ''} {UNKNOWN_NAME}"
    if kinds & LOST:
        return f"the connection{to} was lost"
    if re.search("WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE", text):
        return f"the connection{to} failed: the server does not use TLS; http:// instead of https:// reaches it"
    return format_error_line(str(error)) or f"the connection{to} failed"


def to_provider_error(
    error: BaseException, *, model: str, started: bool = False, stall_seconds: float = 0.0
) -> ProviderError:
    """Return `error` as a `ProviderError`, or as it is; once a first token `started`, nothing is transient.

    `stall_seconds` is the time without a byte after which the transport gave up reading a stream.
    """
    if isinstance(error, ProviderError):
        return error
    f = read_facts(error)
    if missing := _describe_missing(error, f.links, model):
        return missing
    rule = next(rule for rule in RULES if rule.fits(f))
    if (f.network is not None or f.status == PROXY_LOGIN) and rule.kind != "config":
        rule = OF_NETWORK
    why, transient, hint = f.line, rule.transient, rule.hint or _hint_for(rule.kind, model, f.status, f.wait)
    if rule is OF_NETWORK:
        why, hint, transient = _describe_network(f, hint)
    if rule.kind == "config":
        why = re.split(r" URL\(|: '", why)[0]  # what follows is a part of the variable, which may hold a password
    if stall_seconds and f.has(STALLS):
        why = f"no data for {stall_seconds:g} seconds"
    if f.status == 404 and address_from_env(model) and "model" not in f.text.lower():
        hint = check_address_hint(provider_of(model))
    limit, counted = overflow_numbers(f.text) if rule.kind == "overflow" else (None, None)
    return ProviderError(
        rule.kind,
        why or type(error).__name__,
        hint.format(provider=provider_of(model)) if hint == SPENT else hint,
        retry_after=f.wait,
        started=started,
        transient=transient and not started,
        cut=transient and started,
        limit=limit,
        counted=counted,
        status=f.status,
    )
