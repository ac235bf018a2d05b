"""Write `nexus_cli/provider/newer_models.json`: models that the installed litellm does not list, or prices otherwise.

    python tests/provider/newer_models.py TABLE        TABLE: the table of a newer litellm, taken from its wheel

`litellm` is pinned, and its table with it. An entry has the fields that nexus and the installed litellm read. Once the
pin is raised, `test_model_table.py` names the entries that are no longer needed.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from nexus_cli.core.json_value import JsonObject
from nexus_cli.provider.model_names import litellm_folder
from nexus_cli.provider.model_table import FIELDS, NEWER, TABLE

MAKERS = re.compile("anthropic|dashscope|deepseek|gemini|mistral|moonshot|openai|xai|zai")
"""The providers that sell their own models: their prices and limits are compared too."""
HOSTS = re.compile("azure|bedrock_converse|chatgpt|github_copilot|vertex_ai-(?:anthropic_models|language-models)")
"""Providers of which only models that the installed table lacks are taken."""
MODELS = re.compile(
    r"(?!azure/(?!gpt-[6-9]))(?!us-gov\.)(?!gpt-5\.1-codex)(?!.*(?:audio|beta|image|live|lyria|realtime|research|robotics|transcribe|tts))"
)
"""Leaves out models that write no text or are trials, old ones under new names, closed regions, and retired models
whose window now counts the output."""
BEDROCK = re.compile(r"(?:(?:us|eu|global)\.)?anthropic\.claude-")
FACTS = ("input_cost_per_token", "output_cost_per_token", "max_input_tokens")
"""What makes an entry that the installed table has a newer one."""
FEATURES = (
    "adaptive_thinking assistant_prefill function_calling max_reasoning_effort mid_conversation_system"
    " minimal_reasoning_effort native_streaming native_structured_output none_reasoning_effort output_config"
    " parallel_function_calling pdf_input prompt_cache_breakpoint prompt_caching reasoning response_schema"
    " sampling_params system_messages tool_choice vision xhigh_reasoning_effort"
).split()
"""What nexus and litellm ask an entry for, each after `supports_`."""
READ = {"litellm_provider", "mode", "max_input_tokens", "max_output_tokens", *(f"supports_{name}" for name in FEATURES)}
PRICES = re.compile(rf"(?:{'|'.join(FIELDS.values())})(?:_above_\d+k_tokens)?")


def is_wanted(key: str, entry: JsonObject, known: JsonObject | None) -> bool:
    """True for a model that the installed table lacks (`known` is None), or has with other prices or limits."""
    provider = str(entry.get("litellm_provider"))
    if entry.get("mode") not in ("chat", "responses") or not MODELS.match(key) or not entry.get("max_input_tokens"):
        return False  # a window that is not listed has to be assumed, and said to be
    if known is None:
        is_host = HOSTS.fullmatch(provider) and (provider != "bedrock_converse" or BEDROCK.match(key))
        return bool(is_host or MAKERS.fullmatch(provider))
    facts = [field for field in FACTS if entry.get(field) is not None]
    return bool(MAKERS.fullmatch(provider)) and any(entry[field] != known.get(field) for field in facts)


def _features(entry: JsonObject) -> JsonObject:
    return {field: value for field, value in entry.items() if field.startswith("supports_")}


def newer_entries(newer: dict[str, JsonObject], installed: dict[str, JsonObject]) -> dict[str, JsonObject]:
    """Return the wanted entries of `newer`, with the fields that are read and say something. A feature on which only
    `installed` says something is as it says: the entries of retired models lose some."""
    return {
        key: {
            field: value
            for field, value in sorted({**_features(installed.get(key, {})), **entry}.items())
            if value is not None and (field in READ or PRICES.fullmatch(field))
        }
        for key, entry in newer.items()
        if is_wanted(key, entry, installed.get(key))
    }


def main(table: str) -> None:
    """Write the file from the table at the path `table`."""
    folder = litellm_folder()
    assert folder is not None
    found = newer_entries(json.loads(Path(table).read_text("utf-8")), json.loads((folder / TABLE).read_text("utf-8")))
    lines = (f"{json.dumps(key)}: {json.dumps(found[key])}" for key in sorted(found))
    NEWER.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
