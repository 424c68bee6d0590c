"""Write the pages of the site that come from the program and the repository, as a script of mkdocs-gen-files."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import mkdocs_gen_files
from pydantic import BaseModel

from dikkat.config import RunConfig
from dikkat.web.opening import example_sentences, open_for_web
from dikkat.web.page import live_page

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tools.commands import all_commands  # noqa: E402
from tools.site.links import COPIED, rewritten  # noqa: E402

PACKAGES = {"dikkat": "dikkat", "nn": "dikkat.nn", "runtime": "dikkat_runtime"}


MAX_EXAMPLES = 20
QUICKSTART = ROOT / "runs" / "quickstart-fr"
PICTURE = re.compile(r"!\[([^\]]*)\]\(images/page\.gif\)")


def write(path: str, text: str) -> None:
    """Write a page of the site."""
    with mkdocs_gen_files.open(path, "w") as file:
        file.write(text)


def commands() -> str:
    """Return the page of all commands: what `--help` prints of each."""
    parts = [
        "# Commands\n\nEvery command, as `--help` prints it. Settings of `--set` stand in [settings](settings.md).\n"
    ]
    parts += [f"## {command.name}\n\n```text\n{command.help().strip()}\n```\n" for command in all_commands()]
    return "\n".join(parts)


def _rows(section: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in section.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield f"\n## {prefix}{name}\n\n| setting | default | meaning |\n|---|---|---|"
            yield from _rows(kind, f"{prefix}{name}.")
        else:
            default = "required" if field.is_required() else f"`{field.get_default(call_default_factory=True)!r}`"
            meaning = (field.description or "").replace("|", "\\|")
            yield f"| `{prefix}{name}` | {default} | {meaning} |"


def settings() -> str:
    """Return the page of all settings, with their defaults and descriptions."""
    head = "# Settings\n\nWhat `--set name=value`, `--config F.toml` and `config.json` of a run may hold.\n"
    rows = list(_rows(RunConfig))
    plain = [row for row in rows if row.startswith("|")]
    first = next(index for index, row in enumerate(rows) if row.startswith("\n##"))
    table = ["\n| setting | default | meaning |\n|---|---|---|", *rows[:first]] if first and plain else []
    return "\n".join([head, *table, *rows[first:], ""])


def _entry(module: ModuleType, name: str) -> str:
    value: Any = getattr(module, name)
    if not hasattr(value, "__qualname__"):
        return f"::: {module.__name__}.{name}\n"
    home = f"{value.__module__}.{value.__qualname__}"
    other = f"## {name}\n\n`{name}` is `{home}`.\n"
    if not value.__module__.startswith("dikkat"):
        return other
    return f"::: {home}\n" if value.__qualname__ == name else f"{other}\n::: {home}\n"


def reference(package: str) -> str:
    """Return the page of the public names of a package, from their docstrings."""
    module = import_module(package)
    entries = [_entry(module, name) for name in sorted(module.__all__, key=str.lower)]
    return "\n".join([f"# {package}\n\n{(module.__doc__ or '').strip()}\n", *entries])


def with_live_page(text: str, language: str) -> str:
    """Return the first page with the live page of the quickstart model, where that was trained, for its picture."""
    if not (QUICKSTART / "card.md").exists():
        return text
    path = f"assets/page.{language}.html"
    examples = example_sentences(QUICKSTART, MAX_EXAMPLES)
    with mkdocs_gen_files.open(path, "w") as file:
        file.write(live_page(open_for_web(QUICKSTART, "int8"), language=language, examples=examples))
    frame = f'<iframe src="{path}" title="\\1" loading="lazy" style="width:100%;height:55rem;border:0"></iframe>'
    return PICTURE.sub(frame, text)


for source, page in COPIED.items():
    text = rewritten((ROOT / source).read_text(encoding="utf-8"), source, page)
    write(page, with_live_page(text, "tr" if ".tr." in page else "en") if page.startswith("index.") else text)
documentation = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
write("pages/documentation.md", rewritten(documentation, "docs/README.md", "pages/documentation.md"))
write("reference/commands.md", commands())
write("reference/settings.md", settings())
for stem, package in PACKAGES.items():
    write(f"reference/{stem}.md", reference(package))
