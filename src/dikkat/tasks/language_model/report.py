"""Collect the facts of a finished language model for its report: text, faults, scores and surprises."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dikkat.data.corpus import Corpus
from dikkat.data.packing import Example as Asked
from dikkat.data.packing import Windows
from dikkat.explain.report.facts import Curve, Example, Rows, RunFacts
from dikkat.run_directory import RunDirectory
from dikkat.tasks.inspection.report import attention_of
from dikkat.tasks.language_model.evaluate import evaluate_language_model
from dikkat.tasks.language_model.heads import hidden_of, question
from dikkat_runtime.errors import msg
from dikkat_runtime.localization import Say, spoken_in
from dikkat_runtime.special_tokens import UNK_ID
from dikkat_runtime.tasks.generator import Generator as LanguageModel

WORST = 20
PASSAGE = 24
"""Tokens of a passage."""
_WINDOWS = 64
_RUN = 16
"""Length in tokens of a repeated sequence that is unlikely to be repeated by chance."""
_MAX_TOKENS = 500_000


def language_model_facts(run: RunDirectory, metrics: Sequence[Mapping[str, Any]], language: str) -> RunFacts:
    """Run the model on the held-out part of `run`, and collect everything that its report shows."""
    say = spoken_in(language)
    trained = LanguageModel.load(run.path)
    settings, model = trained.config.language_model, trained.config.model
    best, last = min(metrics, key=lambda row: float(row["valid_loss"])), metrics[-1]
    scores = {"perplexity": say("perplexity a token"), "bits_per_byte": say("bits a byte")}
    scores = {key: label for key, label in scores.items() if key in best}
    parameters = sum(parameter.numel() for parameter in trained.model.parameters())
    minutes = f"{last['seconds'] / 60:.1f}"
    train, held_out = (Corpus.open(run.corpus, part, vocab_size=model.vocab_size) for part in ("train", "validation"))
    worst = _worst(trained, held_out, say)
    if settings.objective == "masked":
        lines = [f"{label} {best[key]:.4f}" for key, label in scores.items()]
    else:
        lines = evaluate_language_model(run.path, (), stride=trained.context).lines()
    return RunFacts(
        title=say("Language model ({objective})", settings.objective),
        name=run.path.resolve().name,
        summary=[
            *((label, f"{best[key]:.3f}") for key, label in scores.items()),
            (say("validation loss, nats a token"), f"{best['valid_loss']:.3f}"),
            (say("minutes"), minutes),
            (say("tokens a second"), f"{last['tokens'] / max(last['seconds'], 1e-9):,.0f}"),
            (say("parameters"), f"{parameters:,}"),
        ],
        scored_on=say("On the text that was held out, by which the weights were chosen:"),
        score_lines=[say(line) for line in lines],
        rate=say(
            msg("{passes} passes over the data, {count} tokens predicted in {minutes} minutes.").fill(
                f"{last['epoch']:.1f}", f"{last['tokens']:,}", minutes
            )
        ),
        metrics=metrics,
        curves=[
            Curve(say("Loss, nats"), (say("training"), say("validation")), ("train_loss", "valid_loss")),
            *(Curve(label, (label,), (key,)) for key, label in scores.items()),
        ],
        files=run.read_config()["data_source"]["data"],
        data=_data(run, train, held_out, say, (say("training"), say("validation"))),
        faults=_faults(train, held_out, say),
        lengths={say("training"): train.source_lengths},
        worst_note=say(
            "The held-out passages that surprised the model most. Look for names, numbers, rare words, noise."
        ),
        worst=worst,
        maps=attention_of(trained, [dict(passage.lines)[say("passage")] for passage in worst]),
        model=[
            (say("layers"), f"{model.decoder_layers}"),
            (say("width"), f"{model.model_dim}"),
            (say("attention heads"), f"{model.num_heads}"),
            (say("positions"), model.positions),
            (say("objective"), settings.objective),
            (say("context, tokens"), f"{settings.context:,}"),
            (say("vocabulary"), f"{model.vocab_size:,}"),
            (say("parameters"), f"{parameters:,}"),
        ],
        card=run.card.read_text(encoding="utf-8"),
        settings=run.config.read_text(encoding="utf-8"),
    )


def _data(run: RunDirectory, train: Corpus, held_out: Corpus, say: Say, parts: tuple[str, str]) -> Rows:
    source = run.read_config()["data_source"]
    return [
        (say("documents"), f"{source['documents']:,}"),
        (say("characters: {part}", parts[0]), f"{source['train_characters']:,}"),
        (say("characters: {part}", parts[1]), f"{source['validation_characters']:,}"),
        (say("tokens: {part}", parts[0]), f"{len(train.ids):,}"),
        (say("tokens: {part}", parts[1]), f"{len(held_out.ids):,}"),
    ]


def _faults(corpus: Corpus, held_out: Corpus, say: Say) -> Rows:
    train = corpus.ids.read(0, _MAX_TOKENS).astype(np.uint32)
    known = {row.tobytes() for row in _runs(train)}
    asked = [row.tobytes() for row in _runs(held_out.ids.read(0, len(held_out.ids)).astype(np.uint32))[::_RUN]]
    seen = sum(row in known for row in asked)
    return [
        (say("unknown tokens in training"), f"{int((train == UNK_ID).sum()):,}"),
        (say("of {count} held-out runs of {size} tokens also occur in training", f"{len(asked):,}", _RUN), f"{seen:,}"),
    ]


def _runs(ids: NDArray[np.uint32]) -> NDArray[np.uint32]:
    if ids.size < _RUN:
        return np.empty((0, _RUN), np.uint32)
    return np.lib.stride_tricks.sliding_window_view(ids, _RUN)


def _worst(trained: LanguageModel, held_out: Corpus, say: Say) -> list[Example]:
    """Passages of the greatest mean loss, at most one a window."""
    windows = Windows(held_out, trained.context, trained.context, seed=0)
    passages: list[tuple[float, str, str]] = []
    for number, packed in enumerate(windows.in_order(_WINDOWS * windows.length)):
        asked = question(trained, packed, number)
        nats = _nats(trained, asked)
        # without anything before it every token surprises
        starts = range(len(nats) // 2, len(nats), PASSAGE)
        losses = [float(np.ma.masked_invalid(nats[start : start + PASSAGE]).mean() or 0.0) for start in starts]
        start = starts[int(np.argmax(losses))]
        wanted = asked.wanted[0].tolist()
        passage = trained.tokenizer.decode(wanted[start : start + PASSAGE])
        if passage.strip():
            before = trained.tokenizer.decode(wanted[max(0, start - 2 * PASSAGE) : start])
            passages.append((max(losses), before, passage))
    passages.sort(key=lambda scored: -scored[0])
    return [
        Example(say("{loss:.2f} nats a token", loss), [(say("before it"), before), (say("passage"), passage)])
        for loss, before, passage in passages[:WORST]
    ]


def _nats(trained: LanguageModel, asked: Asked) -> NDArray[np.float64]:
    """(T,): loss of each token of one window; NaN where it is not predicted."""
    with torch.inference_mode():
        likelihoods = trained.model.project(hidden_of(trained, asked)[0]).float().log_softmax(dim=-1)
        nats = -likelihoods.gather(1, torch.from_numpy(asked.wanted[0])[:, None])[:, 0].double().numpy()
    return nats if asked.predicted is None else np.where(asked.predicted[0], nats, np.nan)
