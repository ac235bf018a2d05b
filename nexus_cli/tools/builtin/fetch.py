"""`fetch`: a page of the public web as text. `nexus_cli.tools.web_page` requests and converts it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urldefrag, urlsplit

from nexus_cli.core.message import ToolResult
from nexus_cli.core.tool import ToolContext
from nexus_cli.tools.cancellable_thread import run_in_thread
from nexus_cli.tools.wait_conditions import check_url
from nexus_cli.tools.web_page import PageError, WebPage, convert_page, is_private_name, request_page

MAX_REDIRECTS = 5
NOT_PUBLIC = "{} is not an address of the public internet (for a server of a job, use curl in bash)"


@dataclass(frozen=True, slots=True)
class FetchArguments:
    """The arguments of `fetch`."""

    url: str


async def run(arguments: FetchArguments, context: ToolContext) -> ToolResult:
    """Return the page. A redirect is followed only where permission would allow a call of its target."""
    url = urldefrag(arguments.url.strip()).url
    if refused := await check(arguments, context):
        return refused
    for _ in range(MAX_REDIRECTS + 1):
        try:
            page = await run_in_thread(lambda stop, url=url: request_page(url))  # type: ignore[misc]
            if not page.target:
                text = await run_in_thread(
                    lambda stop, page=page: convert_page(page, stop, context.project)  # type: ignore[misc]
                )
                return _result(url, page, text)
        except PageError as error:
            return ToolResult(error=f"{url}: {error}")
        target = urldefrag(page.target).url
        if why := _refusal(target):
            return ToolResult(error=f"{url} redirects to {target[:500]}: {why}")
        allowed = context.may_reach(target)
        if allowed is False:
            return ToolResult(error=f"{url} redirects to {target[:500]}, which is denied")
        if not allowed and not _is_same_server(url, target):
            return ToolResult(
                f"{url} redirects to {target}, which is not fetched without approval: call fetch with that address."
            )
        url = target
    return ToolResult(error=f"more than {MAX_REDIRECTS} redirects, the last one to {url[:500]}")


async def check(arguments: FetchArguments, context: ToolContext) -> ToolResult | None:
    """Return the error for an address that can never be fetched, None for others."""
    why = _refusal(urldefrag(arguments.url.strip()).url)
    return ToolResult(error=why, ran=False) if why else None


def _is_same_server(url: str, target: str) -> bool:
    """Return True if `target` is on the same server, as safe."""
    before, after = urlsplit(url), urlsplit(target)
    return before.hostname == after.hostname and (before.scheme, before.port) in (
        (after.scheme, after.port),
        ("http", None if after.scheme == "https" and after.port is None else -1),
    )


def _refusal(url: str) -> str:
    """Return the reason why `url` cannot be fetched, "" if it can."""
    if why := check_url(url):
        return why
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        return "only http:// and https:// can be fetched"
    return NOT_PUBLIC.format(parts.hostname) if is_private_name(parts.hostname or "") else ""


def _result(url: str, page: WebPage, text: str) -> ToolResult:
    cut = "\n[The page is longer; the rest was not fetched.]" if page.is_cut else ""
    if page.status >= 400:
        return ToolResult(text[:2000], f"{url}: HTTP status {page.status}")
    return ToolResult(f"{url}\n\n{text}{cut}", counts={"lines": text.count("\n") + 1 if text else 0})
