"""The wire forms of the providers: the same talk, with what each wants back of its own."""

from __future__ import annotations

from recorded.person import Person
from recorded.sessions.answers import CUT, SHOP, call, calls


def _talk(p: Person, model: str, **first: str) -> None:
    """Two processes: reads with thinking, an edit, an answer; another turn; a turn that is cut and goes on."""
    p.uses(model)
    p.file("shop.py", SHOP)
    p.model(
        {"text": "I look.", **first, **calls(("read_file", {"path": "shop.py"}), ("glob", {"pattern": "*.py"}))},
        call("edit_file", path="shop.py", edits=[{"old": '"tea": 4', "new": '"tea": 5'}]),
        "Tea costs 5.",
        "You are welcome.",
    )
    p.nexus("ask", "--allow", "edit", "make tea cost 5")
    p.nexus("ask", "-c", "thanks")
    p.model(CUT, "All of it.", default="Well.")
    p.nexus("ask", "-c", "tell me more", exits=None)
    p.nexus("ask", "-c", "--effort", "high", "go on", exits=None)


def anthropic(p: Person) -> None:
    """Anthropic: system blocks, cache marks, signed thinking."""
    p.environment |= {"ANTHROPIC_API_BASE": p.server.url, "ANTHROPIC_API_KEY": "sk-ant-nobody"}
    _talk(p, "anthropic/claude-sonnet-4-5", thinking="Look first.", signature="c2lnbmVk")


def openai(p: Person) -> None:
    """OpenAI: Chat Completions of a model that litellm knows."""
    _talk(p, "openai/gpt-4o")


def gemini(p: Person) -> None:
    """Gemini: contents, function responses, signatures of thoughts."""
    p.environment |= {"GEMINI_API_BASE": p.server.base("gemini"), "GEMINI_API_KEY": "nobody"}
    _talk(p, "gemini/gemini-2.5-pro", thinking="Look first.", signature="c2lnbmVk")


def deepseek(p: Person) -> None:
    """DeepSeek: Chat Completions with reasoning."""
    p.environment |= {"DEEPSEEK_API_BASE": p.server.base("chat"), "DEEPSEEK_API_KEY": "sk-nobody"}
    _talk(p, "deepseek/deepseek-reasoner", thinking="Look first.")


def ollama(p: Person) -> None:
    """Ollama: a local server with its own form and window."""
    p.environment |= {"OLLAMA_API_BASE": p.server.url}
    _talk(p, "ollama_chat/llama3")


SESSIONS = (anthropic, openai, gemini, deepseek, ollama)
