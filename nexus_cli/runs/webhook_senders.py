"""Check and read the webhooks of GitHub, GitLab and Slack, and of programs that send a token in a header of their own.

Each sender proves itself, names its events and numbers its deliveries in its own way. What is not signed (the headers
of GitHub) cannot make an old delivery a new one, or another event: `ServiceEvent.signature` tells them apart.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from nexus_cli.core.field_conditions import fill_fields
from nexus_cli.core.wire import as_table

BEARER = "Authorization"
SIGNING = ("github", "slack")
"""Senders that sign the body, which shows no token."""
MAX_AGE = 300.0
"""Seconds that a timestamp of Slack may differ from our clock."""
MAX_FIELDS = 1000
"""Most fields of a form."""
FORM = "application/x-www-form-urlencoded"
_TOKEN_HEADERS = {"gitlab": "X-Gitlab-Token"}
_COMMITS = ("check_run.head_sha", "check_suite.head_sha", "workflow_run.head_sha", "workflow_job.head_sha")
CAUSES: Mapping[str, tuple[str, ...]] = {
    "github": (*_COMMITS, "deployment.sha", "sha", "pull_request.number", "after"),
    "gitlab": ("object_attributes.sha", "object_attributes.last_commit.id", "sha", "checkout_sha", "after"),
}
"""By sender the fields that name the cause of an event: its commit, or its pull request."""
_REPOSITORIES = ("repository.full_name", "project.id", "project_id")


@dataclass(frozen=True, slots=True)
class ServiceEvent:
    """One delivery of an event, checked and read."""

    payload: Any
    event: str = ""
    """The kind of event by the sender's name for it, "" if it names none."""
    key: str = ""
    """Idempotency key: equal for repeated deliveries of one event; "" if unknown."""
    signature: str = ""
    """The signature of the body, if it covers neither `event` nor `key`; else ""."""
    challenge: str = ""
    """A text that the sender wants back, to prove that we listen; "" in an ordinary event."""


def refuse_unsigned(
    sender: str, token_header: str, secret: str, headers: Mapping[str, str], body: bytes, now: float
) -> str:
    """Return the reason that a request does not prove its sender, or "". `now` is in seconds since the epoch."""
    if sender == "github":
        proof, form = headers.get("X-Hub-Signature-256", ""), "sha256="
        signed = body
    elif sender == "slack":
        proof, form, sent_at = headers.get("X-Slack-Signature", ""), "v0=", headers.get("X-Slack-Request-Timestamp", "")
        if not (sent_at.isascii() and sent_at.isdigit() and len(sent_at) < 16):
            return "the header X-Slack-Request-Timestamp is missing or wrong"
        if abs(now - int(sent_at)) > MAX_AGE:
            return f"the timestamp is off by more than {MAX_AGE:g} s: a late or replayed request, or a wrong clock"
        signed = b"v0:" + sent_at.encode() + b":" + body
    else:
        name = token_header or _TOKEN_HEADERS.get(sender, BEARER)
        proof = headers.get(name, "")
        if name == BEARER:
            scheme, _, proof = proof.partition(" ")
            proof = proof.strip() if scheme.lower() == "bearer" else ""
        return "" if is_equal(proof, secret) else f"the token in the header {name} is missing or wrong"
    expected = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    return "" if is_equal(proof, form + expected) else "the signature is missing or wrong"


def is_equal(proof: str, secret: str) -> bool:
    """Compare in constant time, independent of the content."""
    return hmac.compare_digest(proof.encode("utf-8", "replace"), secret.encode())


def form_payload(body: bytes) -> bytes | dict[str, str]:
    """Return the JSON in the field `payload` of a form, as GitHub and Slack may send it, else the fields.

    A body that is JSON is returned as it is: curl and other programs send it as a form unless they are told otherwise.
    Raises `ValueError` for more than `MAX_FIELDS`.
    """
    if body.lstrip()[:1] in (b"{", b"["):
        return body
    parsed = parse_qs(body.decode("utf-8", "replace"), max_num_fields=MAX_FIELDS)
    fields = {name: values[-1] for name, values in parsed.items()}
    return fields["payload"].encode() if "payload" in fields else fields


def find_cause(sender: str, payload: Any) -> str:
    """Return the repository and the commit or pull request of an event, "" if it names none of them."""
    templates = (f"{{{place}}} {{{field}}}" for field in CAUSES.get(sender, ()) for place in _REPOSITORIES)
    return next(filter(None, (fill_fields(template, payload) for template in templates)), "")


def read_event(sender: str, headers: Mapping[str, str], payload: Any) -> ServiceEvent:
    """Return the event of a request that `refuse_unsigned` does not refuse."""
    event_id = headers.get("Idempotency-Key", "").strip()
    if sender == "github":
        signature = headers["X-Hub-Signature-256"]
        key = headers.get("X-GitHub-Delivery", "").strip() or event_id or signature
        return ServiceEvent(payload, headers.get("X-GitHub-Event", ""), key, signature)
    if sender == "gitlab":
        return ServiceEvent(
            payload, headers.get("X-Gitlab-Event", ""), headers.get("X-Gitlab-Event-UUID", event_id).strip()
        )
    if sender == "slack":
        fields = as_table(payload)
        inner = fields.get("event")
        event = str((inner if isinstance(inner, dict) else fields).get("type") or fields.get("command") or "")
        challenge = str(fields.get("challenge") or "") if event == "url_verification" else ""
        signature = headers["X-Slack-Signature"]
        return ServiceEvent(payload, event, str(fields.get("event_id") or signature), challenge=challenge)
    return ServiceEvent(payload, key=event_id)
