"""How the varieties of Chat Completions say that a request is too long, word for word, with both figures."""

from __future__ import annotations

from typing import Any

DIALECTS = ("openai", "deepseek", "mistral", "vllm", "llamacpp")


def chat_overflow(tokens: int, limit: int, dialect: str) -> dict[str, Any]:
    """The JSON body of the 400; an unknown dialect speaks like OpenAI."""
    longest = f"This model's maximum context length is {limit} tokens."
    requested = (
        f"{longest} However, you requested {tokens} tokens ({tokens} in the messages, 0 in the completion). "
        "Please reduce the length of the messages or completion."
    )
    if dialect == "deepseek":
        return _nested(requested, "invalid_request_error", None, "invalid_request_error")
    if dialect == "mistral":
        message = f"Prompt contains {tokens} tokens, too large for model with {limit} maximum context length"
        return {"object": "error", "message": message, "type": "invalid_request_error", "param": None, "code": "3051"}
    if dialect == "vllm":
        return _nested(requested, "BadRequestError", None, 400)
    if dialect == "llamacpp":
        message = "the request exceeds the available context size, try increasing it"
        figures = {"type": "exceed_context_size_error", "n_prompt_tokens": tokens, "n_ctx": limit}
        return {"error": {"code": 400, "message": message} | figures}
    message = f"{longest} However, your messages resulted in {tokens} tokens. Please reduce the length of the messages."
    return _nested(message, "invalid_request_error", "messages", "context_length_exceeded")


def _nested(message: str, kind: str, param: str | None, code: str | int) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
