"""Read a run of a translator to be written for another toolkit: settings, weights, tokenizers, and what it writes."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dikkat.config import ModelConfig
from dikkat.interop.foreign_translator import BIAS, OUTPUT, Languages, language_code
from dikkat.interop.trained_network import config_of, sample_texts, trained_network
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import Factory
from dikkat.models.key_table import Row
from dikkat.torch_engine.engine import TorchEngine
from dikkat_runtime.engine.options import DecodingOptions, SearchDefaults
from dikkat_runtime.engine.settings import NATIVE, model_settings
from dikkat_runtime.engine.shortlist import NAMED, SHORTLIST, Shortlist, read_shortlist
from dikkat_runtime.errors import UsageError
from dikkat_runtime.run.config import read_config
from dikkat_runtime.run.manifest import checked
from dikkat_runtime.run.parts import TARGET_TOKENIZER, TOKENIZER
from dikkat_runtime.special_tokens import BOS_ID, SPECIAL_TOKENS, source_ids
from dikkat_runtime.text.tokenizer import Tokenizer, read_tokenizer

MAX_OUTPUT_LENGTH = 60
"""Most tokens that a sample sentence is translated to, the end mark included."""
_MAX_SAMPLE_LENGTH = 200
"""Characters."""


@dataclass(frozen=True, slots=True)
class TrainedTranslator:
    """Hold a translator of a run directory, with all that other toolkits want to know of it."""

    run: Path
    model: ModelConfig
    network: EncoderDecoder
    """In evaluation mode."""
    tokenizers: tuple[Tokenizer, ...]
    """One of both sides, or that of the source and that of the target."""
    tokenizer_settings: tuple[Mapping[str, Any], ...]
    """The JSON of each."""
    vocabularies: str
    """How the vocabularies of the two sides belong together; see `data.vocabularies`."""
    languages: Languages
    length_penalty: float
    thorough: bool
    """Whether beam search goes on as that of Hugging Face does; see `decoding.thorough`."""

    @classmethod
    def open(cls, run: Path) -> "TrainedTranslator":
        """Read the run directory `run`.

        Raises `UsageError` for a model of another kind, and `MissingInputError` or `DataError` naming the file that is
        missing or damaged.
        """
        settings = read_config(run, "translator")
        config = config_of(settings, run)
        model, vocabularies = config.model, config.data.vocabularies
        network = trained_network(run, Factory(model).encoder_decoder)
        source, target = config.data.source_language, config.data.target_language
        files = [(checked(run, TOKENIZER), source, model.vocab_size, "vocab_size")]
        if model.target_vocab_size is not None:
            files.append((checked(run, TARGET_TOKENIZER), target, model.target_vocab_size, "target_vocab_size"))
        elif vocabularies == "shared_ids":
            files.append((checked(run, TARGET_TOKENIZER), target, model.vocab_size, "vocab_size"))
        contents = [read_tokenizer(path) for path, *_ in files]
        tokenizers = tuple(
            Tokenizer.checked(path, *content, size, language, setting)
            for (path, language, size, setting), content in zip(files, contents, strict=True)
        )
        defaults = SearchDefaults.of_run(settings, str(run / "config.json"))
        return cls(
            run,
            model,
            network,
            tokenizers,
            tuple(content[0] for content in contents),
            vocabularies,
            Languages(language_code(source), language_code(target)),
            defaults.length_penalty,
            defaults.thorough,
        )

    @property
    def weights(self) -> dict[str, Tensor]:
        """Return every weight by each of its names."""
        return {name: weight.detach() for name, weight in self.network.named_parameters(remove_duplicate=False)}

    def weights_of(self, rows: Sequence[Row]) -> dict[str, Tensor]:
        """Return the weights that a table of `rows` names, with zeros for each bias that the run lacks."""
        ours = self.weights
        ours.setdefault(BIAS, torch.zeros(len(ours[OUTPUT])))
        for name in (row.ours for row in rows if row.ours not in ours):
            ours[name] = torch.zeros(len(ours[f"{name.removesuffix('bias')}weight"]))
        return ours

    def shortlist(self) -> Shortlist | None:
        """Return the shortlist of the run, or None where it has none; raises as `read_shortlist`."""
        config = read_config(self.run, "translator")
        if NAMED not in config and not (self.run / SHORTLIST).exists():
            return None
        return read_shortlist(self.run, config, model_settings(config, str(self.run / "config.json"), NATIVE))

    @property
    def has_pieces(self) -> bool:
        """Return whether its tokenizers cut as those of SentencePiece do."""
        return all(settings["model"]["type"] == "Unigram" for settings in self.tokenizer_settings)

    @property
    def language_marks(self) -> list[str]:
        """Return the entries of the source that name a language before a text, such as ">>fra<<"."""
        added = [str(token["content"]) for token in self.tokenizer_settings[0]["added_tokens"]]
        return [token for token in added if token not in SPECIAL_TOKENS]

    @property
    def max_positions(self) -> int | None:
        """Most tokens of a sequence, of which each has learned a vector; None where positions are computed."""
        return self.model.max_positions if self.model.positions == "learned" else None

    @property
    def longest_output(self) -> int:
        """Most tokens that a sample sentence is translated to, the end mark included, and `<bos>` before them."""
        return MAX_OUTPUT_LENGTH if self.max_positions is None else min(MAX_OUTPUT_LENGTH, self.max_positions - 1)

    def samples(self, count: int) -> list[str]:
        """Return `count` sentences to try an export with: those held out by the run, else sentences of the phrasebook.

        Fewer than `count` held-out sentences are made up for by the phrasebook's. Those that do not fit into
        `max_positions` are left out. Raises `UsageError` where none fits.
        """
        samples = sample_texts(self.run, count, _MAX_SAMPLE_LENGTH, self._fitting)
        if not samples or self.longest_output < 1:
            raise UsageError(
                "{run}: no sample sentence fits into model.max_positions = {max_positions}, so an export cannot be "
                "compared with the run; train with more"
            ).fill(self.run, self.max_positions)
        return samples

    def _fitting(self, texts: list[str]) -> list[str]:
        """Return the texts whose tokens and end mark have a position each."""
        if (most := self.max_positions) is None:
            return texts
        ids = self.tokenizers[0].encode_batch(texts)
        return [text for text, row in zip(texts, ids, strict=True) if len(row) < most]

    def greedy(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids that the torch engine writes for each text, without marks, of `longest_output` at most."""
        options = DecodingOptions(max_length_factor=0, max_length_offset=self.longest_output)
        engine = TorchEngine(self.network)
        sources = self.tokenizers[0].encode_batch(texts)
        return [list(best[0].tokens) for best in engine.search(engine.encode(sources), options)]

    def in_float64(self) -> "TrainedTranslator":
        """Return a translator that computes in float64, as a measure of what others compute in float32."""
        return replace(self, network=deepcopy(self.network).double())

    @torch.inference_mode()
    def logits(self, source: Sequence[int], target: Sequence[int]) -> Tensor:
        """Return the logits (T + 1, V) of each token of `target` and of the end mark, for ids without marks."""
        sources = torch.tensor([source_ids(source, self.model.add_source_eos)])
        targets = torch.tensor([[BOS_ID, *target]])
        logits: Tensor = self.network(sources, targets, torch.ones_like(sources, dtype=torch.bool))
        return logits[0]


def plain_attention(model: ModelConfig) -> dict[str, object]:
    """Return what the settings of attention and embeddings must be for toolkits that compute the usual ones alone."""
    return {
        "positions_in_every_layer": False,
        "num_kv_heads": (None, model.num_heads),
        "head_dim": (None, model.model_dim // model.num_heads),
        "score": "scaled_dot",
        "inverse_temperature": None,
        "selection": "soft",
        "attention_window": None,
        "embedding_norm": False,
    }


def refuse_settings(
    translator: TrainedTranslator,
    toolkit: str,
    only: Mapping[str, object],
    others: Mapping[str, tuple[object, object]] | None = None,
) -> None:
    """Raise `UsageError` naming the settings that `toolkit` lacks and those to train with.

    `only` says what each setting of the model must be, where a tuple lists the values that the toolkit computes, and
    `others` of settings elsewhere what they are and must be.
    """
    wanted = {**(others or {})}
    wanted |= {f"model.{name}": (getattr(translator.model, name), value) for name, value in only.items()}
    allowed = {name: value if isinstance(value, tuple) else (value,) for name, (_, value) in wanted.items()}
    unfit = [name for name, (actual, _) in wanted.items() if actual not in allowed[name]]
    if unfit:
        has = ", ".join(f"{name} = {_shown(wanted[name][0])}" for name in unfit)
        raise UsageError("{run}: {toolkit} does not compute a model with {feature}; train one with {flags}").fill(
            translator.run, toolkit, has, " ".join(f"--set {name}={_shown(allowed[name][0])}" for name in unfit)
        )


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
