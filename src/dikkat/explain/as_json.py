"""Write an explanation as JSON: its text, and every number with all its digits."""

from __future__ import annotations

import json
from typing import Any

from dikkat.explain.explanation import Explanation
from dikkat.explain.trace import ModelTrace, Trace


def as_json(explanation: Explanation, traced: Trace | ModelTrace) -> str:
    """Return one JSON object: title, introduction, steps (heading and text), ending, and the numbers of the trace."""
    content: dict[str, Any] = {
        "title": explanation.title,
        "introduction": list(explanation.introduction),
        "steps": [{"heading": step.heading, "text": [*step.text, *step.after]} for step in explanation.steps],
        "ending": list(explanation.ending),
    }
    if isinstance(traced, ModelTrace):
        content["cell"] = {
            "stack": traced.stack,
            "layer": traced.layer + 1,
            "head": traced.head + 1,
            "kind": traced.kind,
            "query_input": traced.query_input.tolist(),
            "module_output": traced.module_output.tolist(),
            "largest_difference": traced.difference,
        }
    trace = traced.trace if isinstance(traced, ModelTrace) else traced
    return json.dumps({**content, **trace.as_dict()}, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
