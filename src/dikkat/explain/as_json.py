"""An explanation as JSON: the words of the story, and every number with all its digits."""

from __future__ import annotations

import json
from typing import Any

from dikkat.explain.story import Story
from dikkat.explain.trace import ModelTrace, Trace


def as_json(story: Story, found: Trace | ModelTrace) -> str:
    """One object: title, introduction, steps (heading and text), ending, and the numbers of the trace."""
    content: dict[str, Any] = {
        "title": story.title,
        "introduction": list(story.introduction),
        "steps": [{"heading": step.heading, "text": [*step.text, *step.after]} for step in story.steps],
        "ending": list(story.ending),
    }
    if isinstance(found, ModelTrace):
        content["cell"] = {
            "stack": found.stack,
            "layer": found.layer + 1,
            "head": found.head + 1,
            "kind": found.kind,
            "query_input": found.query_input.tolist(),
            "module_output": found.module_output.tolist(),
            "largest_difference": found.difference,
        }
    trace = found.trace if isinstance(found, ModelTrace) else found
    return json.dumps({**content, **trace.as_dict()}, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
