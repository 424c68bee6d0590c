"""Read a chat template, a program in Jinja, as the fixed texts between messages, so that nobody has to run it later."""

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from dikkat_runtime.text.foreign_json import read_json

_CONVERSATIONS = ("user", "system user", "user assistant user", "system user assistant user assistant user")
_OPTIONS: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "extensions": ["jinja2.ext.loopcontrols"]}


def chat_texts(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts between messages of a `chat_template`, by the roles before and after, as in "user assistant".

    No role is the beginning, or the answer that is asked for. There are none of a template that writes other texts
    there in another conversation, or changes messages. The settings are those of tokenizer_config.json.
    """
    environment = ImmutableSandboxedEnvironment(**_OPTIONS)
    environment.globals["raise_exception"] = _refuse
    tokens = {name: value.get("content") if isinstance(value, dict) else value for name, value in settings.items()}
    texts: dict[str, str] = {}
    for roles in (conversation.split() for conversation in _CONVERSATIONS if settings.get("chat_template")):
        messages = [{"role": role, "content": f" «{number}» "} for number, role in enumerate(roles)]
        try:
            template = environment.from_string(str(settings["chat_template"]))
            rest = template.render({**tokens, "messages": messages, "add_generation_prompt": True})
        except (TemplateError, TypeError, ValueError):
            # such as one that takes no message of the system
            continue
        for pair, content in zip(pairwise(("", *roles, "")), [*(row["content"] for row in messages), ""], strict=True):
            text, is_there, rest = rest.partition(content) if content else (rest, "yes", "")
            if not is_there or texts.setdefault(" ".join(pair), text) != text:
                return {}
    return texts


def _refuse(reason: str) -> None:
    raise TemplateError(reason)


def template_settings(folder: Path) -> dict[str, Any]:
    """Return the settings of the tokenizer in a checkpoint folder, with the chat template that lies next to them."""
    path, own = folder / "tokenizer_config.json", folder / "chat_template.jinja"
    values: dict[str, Any] = read_json(path) if path.exists() else {}
    return {**values, "chat_template": own.read_text(encoding="utf-8")} if own.exists() else values
