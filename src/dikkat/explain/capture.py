"""Record queries, keys, values, mask and output of one attention layer of a model while it runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dikkat.explain.head_analysis.importance import attentions_of, exact
from dikkat.explain.trace import Cell, ModelTrace, trace_cell
from dikkat.nn.functional import inverse_temperature
from dikkat.nn.multi_head_attention import MultiHeadAttention, Observation
from dikkat.nn.recorder import MapName
from dikkat.nn.scorers import AdditiveScore, AttentionScorer
from dikkat_runtime.errors import UsageError


@dataclass(frozen=True, slots=True, eq=False)
class Capture:
    """Hold one attention layer with all its heads, in one forward call on one sentence."""

    name: MapName
    module: MultiHeadAttention
    seen: Observation
    query_input: Tensor
    """(T, D), the input of the query projection."""
    output: Tensor
    """(T, H * K), the outputs of the heads side by side, before the output projection."""

    def trace(
        self, head: int, query: int, query_tokens: Sequence[str], key_tokens: Sequence[str], *, positions_added: bool
    ) -> ModelTrace:
        """Return the arithmetic of one head (from 0) at one query (from 0). Raises `UsageError` for an unknown head."""
        num_heads = self.seen.query.shape[1]
        if not 0 <= head < num_heads:
            raise UsageError("there is no head {head}: choose from 1 to {num_heads}", head + 1, num_heads)
        return ModelTrace(
            trace=trace_cell(self._cell(head, query, query_tokens[query], tuple(key_tokens))),
            stack=self.name.stack,
            layer=self.name.layer,
            head=head,
            kind=self.name.kind,
            num_heads=num_heads,
            query_input=exact(self.query_input[query]),
            # (H * K,) -> (H, K)
            module_output=exact(self.output[query].view(num_heads, -1)[head]),
            has_bias=self.module.query_has_bias,
            turns=self._turns(),
            positions_added=positions_added,
        )

    @torch.no_grad()
    def _cell(self, head: int, query: int, query_token: str, key_tokens: tuple[str, ...]) -> Cell:
        q, k, v, mask = self.seen
        rule = self.module.comparison
        shape = (*q.shape[:3], k.shape[2])
        score_vector, bias = None, None
        if isinstance(rule, AttentionScorer):
            if rule.bilinear is not None:
                q = rule.bilinear.project_query(q)
            if isinstance(rule.score, AdditiveScore):
                score_vector = exact(rule.score.vector.view(q.shape[1], -1)[head])
            elif callable(rule.score):
                raise UsageError("this attention has a score function of its own, whose terms are not known")
            if rule.bias is not None:
                scaled = q * inverse_temperature(q, rule.score, rule.beta)
                bias = exact(rule.bias(scaled, k.shape[2]).expand(shape)[0, head, query])
        return Cell(
            query_number=query + 1,
            query_token=query_token,
            key_tokens=key_tokens,
            query=exact(q[0, head, query]),
            keys=exact(k[0, head]),
            values=exact(v[0, head]),
            beta=inverse_temperature(q, rule.score, rule.beta),
            allowed=None if mask is None else mask.expand(shape)[0, head, query].cpu().numpy(),
            bias=bias,
            score_vector=score_vector,
            hard=isinstance(rule, AttentionScorer) and rule.selection != "soft",
        )

    def _turns(self) -> tuple[str, ...]:
        rule = self.module.comparison
        is_bilinear = isinstance(rule, AttentionScorer) and rule.bilinear is not None
        is_rotary = self.module.rotary is not None
        return (*(("rotary",) if is_rotary else ()), *(("bilinear",) if is_bilinear else ()))


def capture_attention(model: nn.Module, name: MapName, run: Callable[[], object]) -> Capture:
    """Let `run` call `model` once on one sentence, and record the attention layer called `name`.

    Raises `UsageError` when the model has no such attention, naming what it has.
    """
    module = _find(model, name)
    seen: list[Observation] = []
    inputs: list[Tensor] = []
    outputs: list[Tensor] = []

    with (
        module.observe(seen.append),
        module.register_forward_pre_hook(
            lambda _, args, settings: inputs.append(args[0] if args else settings["query"]), with_kwargs=True
        ),
        module.out_projection.register_forward_pre_hook(lambda _, args: outputs.append(args[0])),
        torch.no_grad(),
    ):
        run()
    return Capture(name, module, seen[0], inputs[0][0], outputs[0][0])


def _find(model: nn.Module, name: MapName) -> MultiHeadAttention:
    attentions = attentions_of(model)
    if name in attentions:
        return attentions[name]
    stacks = sorted({known.stack for known in attentions})
    if name.stack not in stacks:
        raise UsageError('there is no stack "{stack}"; choose from {stacks}', name.stack, ", ".join(stacks))
    layers = [known.layer for known in attentions if (known.stack, known.kind) == (name.stack, name.kind)]
    if not layers:
        raise UsageError(
            "there is no {kind}-attention in the {stack}; only a decoder attends to a source", name.kind, name.stack
        )
    raise UsageError("there is no layer {layer} in the {stack}: choose from 1 to {layers}").fill(
        name.layer + 1, name.stack, max(layers) + 1
    )
