"""Show a few words that a language model writes while it trains."""

from __future__ import annotations

import numpy as np
import torch

from dikkat.config import RunConfig
from dikkat.data.objectives import hidden_tokens
from dikkat.data.packing import Windows
from dikkat.kernels.device import to_device
from dikkat.models.language_model import LanguageModel as Network
from dikkat.tasks.language_model.language_model import LanguageModel
from dikkat_runtime.engine.options import GenerationOptions
from dikkat_runtime.text.tokenizer import Tokenizer

_PROMPT_TOKENS = 16
_OPTIONS = GenerationOptions(max_tokens=64)


class Sample:
    """Continue, or fill in, a window of the held-out text; another one at each validation."""

    def __init__(self, tokenizer: Tokenizer, held_out: Windows, config: RunConfig) -> None:
        self._tokenizer, self._held_out, self._config = tokenizer, held_out, config

    def __call__(self, model: Network, number: int) -> tuple[tuple[str, str], ...]:
        packed = self._held_out.at(number)
        if self._config.language_model.objective == "masked":
            share = self._config.language_model.masked_share
            example = hidden_tokens(packed, share, self._tokenizer.vocab_size, np.random.default_rng(number))
            with torch.inference_mode():
                read = to_device(example.tokens[:1], model.output_weight.device)
                said = model(read)[0].argmax(dim=-1).cpu().numpy()
            asked = example.predicted[0] if example.predicted is not None else True
            filled = np.where(asked, said, example.wanted[0])
            rows = (("read", example.tokens[0]), ("filled", filled), ("human", example.wanted[0]))
            return tuple((label, _line(self._tokenizer.decode(ids.tolist()[:80]))) for label, ids in rows)
        half = max(1, min(_PROMPT_TOKENS, self._held_out.length // 2))
        prompt = self._tokenizer.decode(packed.tokens[0, :half].tolist())
        (written,) = LanguageModel(model, self._tokenizer, self._config).generate([prompt], options=_OPTIONS)[0]
        return (("prompt", _line(prompt)), ("model", _line(written.text)))


def _line(text: str) -> str:
    return text.replace("\n", "⏎")
