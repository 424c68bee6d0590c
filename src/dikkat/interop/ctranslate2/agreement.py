"""Check an exported folder before it takes its name: by CTranslate2 itself where it is installed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from dikkat.config import ModelConfig
from dikkat.evaluation import score_translations, scoring_for
from dikkat.interop.ctranslate2.layout import POSITIONS, copies, joined, rows
from dikkat.interop.ctranslate2.model_file import SCALE, Array, ModelFile, model_file_bytes, quantized
from dikkat.interop.ctranslate2.reading import CONFIG, MODEL, PREFIX
from dikkat.interop.ctranslate2.settings import scalars_of
from dikkat.interop.ctranslate2.vocabularies import MARKS, OWN, OWN_TOKENIZER, PIECES, SHARED, SIDES, with_checksums
from dikkat.interop.exported_texts import require_same_ids
from dikkat.interop.foreign_translator import BIAS, OUTPUT, ForeignTranslator
from dikkat.interop.piece_vocabulary import NEVER
from dikkat.interop.sentencepiece_file import entries_of, pieces_of, sentencepiece_file, with_named
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat.models.key_table import to_theirs
from dikkat.nn.positions import LAYOUTS, sinusoids
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.errors import DataError
from dikkat_runtime.run.parts import TARGET_TOKENIZER
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID, SPECIAL_TOKENS, UNK_ID
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.pieces import HIDDEN

# The files of an exported folder: model, vocabularies, tokenizers, settings with checksums.

Precision = Literal["float32", "int8"]
_POSITIONS = 1024
"""Rows of a table of fixed positions, as long as a source may be: CTranslate2 cuts a source there."""


def exported_files(
    translator: TrainedTranslator, precision: Precision, *, with_tokenizers: bool = True
) -> dict[str, bytes]:
    """Return the files of a folder by their names, the settings with the checksums of the others last.

    A run whose tokenizers have the shape of SentencePiece has its models there, and any other its tokenizer.json.
    """
    files = {MODEL: model_file_bytes(variables(translator.model, translator.weights, precision))}
    lists = spelled_entries(translator)
    for name, entries in zip((SHARED,) if len(lists) == 1 else SIDES, lists, strict=True):
        files[f"{name}.json"] = _json(entries)
    if with_tokenizers:
        files |= tokenizer_files(translator)
    return {**files, CONFIG: _json(with_checksums(_config(translator), files))}


def spelled_entries(translator: TrainedTranslator) -> list[list[str]]:
    """Return the entries of the vocabulary by their ids, of both sides or of each, as its tokenizer spells them."""
    lists = [_pieces(one.entries) if translator.has_pieces else one.entries for one in translator.tokenizers]
    return lists[:1] if lists[0] == lists[-1] else lists


def spelled_prefix(translator: TrainedTranslator) -> str | None:
    """Return the entry that every output begins with, as the vocabulary spells it; None where there is none."""
    number = translator.model.target_prefix
    return None if number is None else spelled_entries(translator)[-1][number]


def tokenizer_files(translator: TrainedTranslator) -> dict[str, bytes]:
    """Return the files that a text is cut by."""
    settings = translator.tokenizer_settings
    if not translator.has_pieces:
        return {name: _json(one) for name, one in zip((OWN_TOKENIZER, TARGET_TOKENIZER), settings, strict=False)}
    names = PIECES[0] if len(settings) == 2 else PIECES[1]
    pieces = [pieces_of(one) for one in settings]
    # a translation may hold pieces of the source, too, where both sides have one vocabulary
    pieces[-1] = with_named(pieces[-1], entries_of(settings[-1]))
    return {name: sentencepiece_file(own, one) for name, own, one in zip(names, pieces, settings, strict=True)}


def named_weights(model: ModelConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights by the names of our table, with a bias that keeps the padding and the begin unwritten."""
    ours = dict(weights)
    bias = ours[BIAS].clone() if model.output_bias else ours[OUTPUT].new_zeros(len(ours[OUTPUT]))
    # as in our engines, these are never written
    bias[[PAD_ID, BOS_ID]] = NEVER
    ours[BIAS] = bias
    return to_theirs(rows(model.model_copy(update={"output_bias": True})), ours)


def variables(model: ModelConfig, weights: Mapping[str, Tensor], precision: Precision) -> ModelFile:
    """Return the model of these settings and weights as CTranslate2 has it."""
    theirs = joined(named_weights(model, weights))
    if model.positions in LAYOUTS:
        theirs[POSITIONS[1]] = sinusoids(_POSITIONS, model.model_dim, LAYOUTS[model.positions])
    arrays: dict[str, Array] = {name: tensor.to(torch.float32).numpy() for name, tensor in theirs.items()}
    aliases = copies(model)
    if precision == "int8":
        arrays = quantized(arrays)
        scaled = {alias: name for alias, name in aliases.items() if name + SCALE in arrays}
        aliases |= {alias + SCALE: name + SCALE for alias, name in scaled.items()}
    return ModelFile(arrays | scalars_of(model), aliases)


def _pieces(entries: Sequence[str]) -> list[str]:
    """Entries without the mark that hides a piece of the other side, where that leaves each once."""
    taken = {*MARKS, *(entry for entry in entries if not entry.startswith(HIDDEN))}
    spelled = list(MARKS)
    for entry in entries[len(MARKS) :]:
        plain = entry.removeprefix(HIDDEN)
        hidden = plain != entry and plain in taken
        spelled.append(entry if hidden or entry in MARKS else plain)
        taken.add(plain)
    return spelled


def _config(translator: TrainedTranslator) -> dict[str, Any]:
    spelled = MARKS if translator.has_pieces else SPECIAL_TOKENS
    marks = {"bos": BOS_ID, "eos": EOS_ID, "unk": UNK_ID, "decoder_start": BOS_ID}
    return {
        **{f"{mark}_token": spelled[number] for mark, number in marks.items()},
        "add_source_bos": False,
        "add_source_eos": translator.model.add_source_eos,
        "layer_norm_epsilon": translator.model.norm_eps,
        "multi_query_attention": False,
        OWN: {
            **({} if (prefix := spelled_prefix(translator)) is None else {PREFIX: prefix}),
            "source_language": translator.languages.source,
            "target_language": translator.languages.target,
            "length_penalty": translator.length_penalty,
            "thorough": translator.thorough,
        },
    }


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")


SENTENCES = 200
"""Sample sentences that the exported folder translates."""
MIN_SCORED = 50
"""Held-out pairs below which a difference of chrF says nothing."""
MAX_CHRF = 0.3
"""chrF that int8 may lose."""
_HALF = 0.501
"""Half a step of int8, and what float32 adds to it."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Say how an export was checked."""

    how: Literal["texts", "chrf", "weights", "weights_without"]
    """By texts, by chrF, or by weights: without held-out pairs, or without CTranslate2."""
    sentences: int = 0
    scores: tuple[float, float] = (0.0, 0.0)
    """chrF of the run and of the folder."""


def check_export(translator: TrainedTranslator, again: ForeignTranslator, model: Path, precision: Precision) -> Checked:
    """Raise `DataError` unless an export has the weights and the tokenizer of a run, and translates as that does.

    `again` is what our own reader finds in it, and `model` the folder for CTranslate2, where that is installed.

    In float32 every text must be the same; int8 may lose 0.3 chrF on the pairs that the run holds out.
    """
    texts = translator.samples(SENTENCES)
    _check_weights(translator, again, precision)
    # what was read back does not know the language that a text is lower-cased by, and learns it from config.json
    read_back = again.tokenizers[0].encode_batch(texts, again.languages.source)
    ids = [[again.orders[0].rows[number] for number in row] for row in read_back]
    require_same_ids(translator.run, texts, translator.tokenizers[0].encode_batch(texts), ids)
    _check_entries(translator, again)
    if find_spec("ctranslate2") is None:
        return Checked("weights_without")
    if precision == "float32":
        theirs = by_ctranslate2(translator, model, texts, precision)
        _check_texts(translator.run, texts, translated(translator, texts), theirs)
        return Checked("texts", len(texts))
    sources, references = held_out(translator.run)
    if len(sources) < MIN_SCORED:
        return Checked("weights")
    scoring = scoring_for(translator.languages.target, references)
    ours = score_translations(translated(translator, sources), references, scoring).chrf
    theirs = by_ctranslate2(translator, model, sources, precision)
    score = score_translations(theirs, references, scoring).chrf
    if score < ours - MAX_CHRF:
        raise DataError(
            "{run}: int8 loses {loss:.2f} chrF on {count} held-out sentences, over the limit of {max_chrf}; "
            "nothing was written; export it with --precision float32"
        ).fill(translator.run, ours - score, len(sources), MAX_CHRF)
    return Checked("chrf", len(sources), (ours, score))


def held_out(run: Path) -> tuple[list[str], list[str]]:
    """Return up to `SENTENCES` held-out pairs of a run, of its test or else its validation; none where it has none."""
    for part in ("test", "validation"):
        try:
            columns = [
                (run / "held_out" / f"{part}.{side}.txt").read_text("utf-8").split("\n")
                for side in ("source", "target")
            ]
        except (OSError, UnicodeDecodeError):
            continue
        pairs = [pair for pair in zip(*columns, strict=False) if all(text.strip() for text in pair)]
        if pairs:
            pairs = pairs[:: max(1, len(pairs) // SENTENCES)][:SENTENCES]
            return [source for source, _ in pairs], [target for _, target in pairs]
    return [], []


def translated(translator: TrainedTranslator, texts: Sequence[str]) -> list[str]:
    """Return the greedy translations of the run itself."""
    return translator.tokenizers[-1].decode_batch(translator.greedy(texts))


def check_vmap(translator: TrainedTranslator, folder: Path, precision: Precision) -> None:
    """Raise `DataError` unless CTranslate2, where it is installed, writes with vmap.txt what the run writes.

    In int8 it rounds in its own way, so that only float32 is compared.
    """
    if precision != "float32" or find_spec("ctranslate2") is None:
        return
    texts = translator.samples(SENTENCES)
    engine = Translator.load(translator.run).engine
    length = DecodingOptions(max_length_factor=0, max_length_offset=translator.longest_output)
    results = engine.search(engine.encode(translator.tokenizers[0].encode_batch(texts)), length)
    ours = translator.tokenizers[-1].decode_batch([hypotheses[0].tokens for hypotheses in results])
    theirs = by_ctranslate2(translator, folder, texts, precision, use_vmap=True)
    _check_texts(translator.run, texts, ours, theirs)


def by_ctranslate2(
    translator: TrainedTranslator, folder: Path, texts: Sequence[str], precision: str, *, use_vmap: bool = False
) -> list[str]:
    """Return the greedy translations of CTranslate2; with `use_vmap` among the words of vmap.txt for each text."""
    # only where it is installed
    import ctranslate2

    lists, target = spelled_entries(translator), translator.tokenizers[-1]
    prefix = [] if (entry := spelled_prefix(translator)) is None else [entry]
    ids = {entry: number for number, entry in enumerate(lists[-1])}
    engine: Any = ctranslate2.Translator(str(folder), compute_type=precision, intra_threads=torch.get_num_threads())
    results = engine.translate_batch(
        [[lists[0][number] for number in row] for row in translator.tokenizers[0].encode_batch(texts)],
        beam_size=1,
        min_decoding_length=0,
        max_decoding_length=translator.longest_output + len(prefix),
        target_prefix=[prefix] * len(texts) if prefix else None,
        # the words of a batch are those of all its sentences
        max_batch_size=1 if use_vmap else 64,
        use_vmap=use_vmap,
    )
    return target.decode_batch([[ids[entry] for entry in result.hypotheses[0][len(prefix) :]] for result in results])


def _check_texts(run: Path, texts: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> None:
    different = [index for index in range(len(texts)) if ours[index] != theirs[index]]
    if different:
        first = different[0]
        raise DataError(
            "{run}: CTranslate2 translates {count} of {total} sample sentences differently, such as {text} to "
            "{written}, not {expected}; nothing was written"
        ).fill(run, len(different), len(texts), repr(texts[first]), repr(theirs[first]), repr(ours[first]))


def _check_weights(translator: TrainedTranslator, again: ForeignTranslator, precision: str) -> None:
    written = again.theirs()
    for name, tensor in named_weights(translator.model, translator.weights).items():
        step = tensor.abs().amax(dim=-1, keepdim=True) / 127 if precision == "int8" and tensor.dim() == 2 else 0.0
        if not bool(((tensor - written[name]).abs() <= _HALF * step).all()):
            raise DataError(
                "{run}: the weight {name} is not written as it is; nothing was written", translator.run, name
            )


def _check_entries(translator: TrainedTranslator, again: ForeignTranslator) -> None:
    """Compare what the tokenizers of the target write for each entry: ours joins the tokens that a program writes."""
    rows = again.orders[-1].rows
    numbers = [number for number, row in enumerate(rows) if row >= len(SPECIAL_TOKENS)]
    ours = translator.tokenizers[-1].decode_batch([[rows[number]] for number in numbers])
    theirs = again.tokenizers[-1].decode_batch([[number] for number in numbers])
    for own, other in zip(ours, theirs, strict=True):
        if own != other:
            raise DataError(
                "{run}: the exported tokenizer writes {written} instead of {expected}; nothing was written"
            ).fill(translator.run, repr(other), repr(own))
