"""Write a translator as the MarianMT folder of Hugging Face that `AutoModelForSeq2SeqLM` loads.

A vocabulary of pieces becomes that of OPUS-MT: `</s>` 0, `<unk>` 1, the others, and last `<pad>`, with which decoding
begins. Another tokenizer keeps its ids, and is written as `tokenizer.json`.
"""

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import WEIGHTS, ForeignSettings, read_checkpoint
from dikkat.interop.exported_texts import MAX_LENGTH, fast_tokenizer_files
from dikkat.interop.families.marian import keys
from dikkat.interop.family import table
from dikkat.interop.foreign_translator import BIAS, OUTPUT, SOURCE, TARGET, our_shapes
from dikkat.interop.parity import SAMPLES, Parity, check_parity, whole_folder
from dikkat.interop.piece_vocabulary import NEVER, VocabularyOrder
from dikkat.interop.sentencepiece_file import END, UNKNOWN, entries_of, pieces_of, sentencepiece_file
from dikkat.interop.text_parity import write_files
from dikkat.interop.trained_translator import TrainedTranslator, plain_attention, refuse_settings
from dikkat.models.factory import Factory
from dikkat.models.key_table import to_theirs
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.errors import DataError, UsageError, msg
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID, SPECIAL_TOKENS
from dikkat_runtime.text.casing import has_dotted_i


def compared_by_transformers(
    translator: TrainedTranslator, folder: Path, order: VocabularyOrder | None, texts: Sequence[str]
) -> Parity:
    """Return how the folder compares with the run. Raises `DataError` where it computes something else."""
    import transformers

    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    if hasattr(tokenizer, "normalize"):
        # Hugging Face normalises punctuation where sacremoses is installed, which is not part of the model
        texts = [tokenizer.normalize(text) for text in texts]
    special = {model.config.pad_token_id, model.config.eos_token_id, model.config.decoder_start_token_id}

    @torch.inference_mode()
    def write(lines: Sequence[str]) -> list[str]:
        batch = tokenizer(list(lines), return_tensors="pt", padding=True)
        rows = model.generate(
            input_ids=batch.input_ids,
            attention_mask=batch.attention_mask,
            num_beams=1,
            do_sample=False,
            max_length=None,
            max_new_tokens=translator.longest_output,
        )
        written = [[number for number in row.tolist() if number not in special] for row in rows]
        decoded = tokenizer.batch_decode(written, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return [str(text) for text in decoded]

    @torch.inference_mode()
    def logits(source: Sequence[int], target: Sequence[int]) -> Tensor:
        rows = list(range(model.config.vocab_size)) if order is None else list(order.rows)
        sources = torch.tensor([[rows[number] for number in (*source, EOS_ID)]])
        targets = torch.tensor([[model.config.decoder_start_token_id] + [rows[number] for number in target]])
        computed: Tensor = model(input_ids=sources, decoder_input_ids=targets).logits[0]
        size = translator.model.target_vocab_size or translator.model.vocab_size
        return computed[:, rows[:size]]

    return check_parity(translator, f"transformers {transformers.__version__}", write, logits, texts)


FINAL_BIAS = "final_logits_bias"
PADDING = "<pad>"
_ACTIVATIONS = {"silu": "swish", "relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new"}


def export_huggingface(translator: TrainedTranslator, out: Path, count: int = SAMPLES) -> Parity:
    """Write the folder `out`, and compare it with the run by `count` sentences before it is there.

    Raises `UsageError` naming the settings that MarianMT does not compute, `DataError` where the folder computes
    something else, and `CannotCreateError` or `DiskError`.
    """
    _check(translator)
    with whole_folder(out) as folder:
        ids = _write_pieces(translator, folder) if translator.has_pieces else _write_tokenizer(translator, folder)
        order = _order(translator) if translator.has_pieces else None
        weights = their_weights(translator, order)
        save_file(weights, folder / WEIGHTS, {"format": "pt"})
        config = _config(translator.model, weights[FINAL_BIAS].shape[1], ids)
        write_files(folder, {"config.json": config, "generation_config.json": _generation(translator, ids)})
        texts = translator.samples(count)
        if find_spec("transformers") is None or (translator.has_pieces and find_spec("sentencepiece") is None):
            return _read_back(translator, weights, folder)
        return compared_by_transformers(translator, folder, order, texts)


def their_weights(translator: TrainedTranslator, order: VocabularyOrder | None) -> dict[str, Tensor]:
    """Return the weights by the names of MarianMT; with `order` the vocabulary is in theirs."""
    written = translator.model.model_copy(update={"output_bias": True})
    settings = ForeignSettings(translator.run, {"model_type": "marian"})
    rows = table(keys(written, settings), our_shapes(written, Factory.encoder_decoder, translator.run), written)
    ours = translator.weights_of(rows)
    if order is not None:
        size = len(order.rows)
        for name in (SOURCE, TARGET, OUTPUT):
            if name in ours:
                matrix = F.pad(ours[name], (0, 0, 0, size - len(ours[name])))
                # decoding begins with the row of the padding
                matrix[PAD_ID] = matrix[BOS_ID]
                ours[name] = order.theirs(matrix)
        ours[BIAS] = order.theirs(F.pad(ours[BIAS], (0, size - len(ours[BIAS])), value=NEVER))
    theirs = {name: tensor.contiguous().clone() for name, tensor in to_theirs(rows, ours).items()}
    theirs[FINAL_BIAS] = theirs[FINAL_BIAS][None]
    return theirs


def _check(translator: TrainedTranslator) -> None:
    refuse_settings(
        translator,
        "MarianMT",
        {
            "norm": "layer",
            "norm_placement": "post",
            "norm_eps": 1e-5,
            "positions": "sinusoidal_halves",
            "activation": tuple(_ACTIVATIONS),
            **plain_attention(translator.model),
            "add_source_eos": True,
            "target_prefix": None,
            "decoder_memory": "attention",
            "tie_embeddings": True,
        },
        {} if translator.has_pieces else {"data.vocabularies": (translator.vocabularies, "joint")},
    )
    lowercases = any('"Lowercase"' in json.dumps(one["normalizer"]) for one in translator.tokenizer_settings)
    if lowercases and any(map(has_dotted_i, (translator.languages.source, translator.languages.target))):
        raise UsageError(
            "{run}: the tokenizers of Hugging Face lower-case Turkish and Azeri differently; train a model with "
            "--set tokenizer.lowercase=false"
        ).fill(translator.run)


def _order(translator: TrainedTranslator) -> VocabularyOrder:
    """That of both vocabularies, since one number means padding in both; the smaller one is filled up."""
    size = max(translator.model.vocab_size, translator.model.target_vocab_size or 0) - 1
    return VocabularyOrder.of(size, end=0, unknown=1, padding=size - 1)


def _write_pieces(translator: TrainedTranslator, folder: Path) -> dict[str, int]:
    """Write vocabularies and SentencePiece models, and return the ids of the special entries."""
    settings = translator.tokenizer_settings
    for side, own in (("source", settings[0]), ("target", settings[-1])):
        (folder / f"{side}.spm").write_bytes(sentencepiece_file(pieces_of(own), own))
    separate = translator.model.target_vocab_size is not None
    size = len(_order(translator).rows) - len(SPECIAL_TOKENS)
    for name, own in zip(("vocab.json", "target_vocab.json"), settings if separate else settings[:1], strict=False):
        entries = entries_of(own)
        entries = [END, UNKNOWN, *entries, *(f"<unused{number}>" for number in range(size - len(entries))), PADDING]
        numbers = {entry: number for number, entry in enumerate(entries)}
        if len(numbers) < len(entries):
            raise DataError("{run}: an entry occurs twice in {name}; nothing was written", translator.run, name)
        write_files(folder, {name: numbers})
    languages = translator.languages
    config = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": languages.source or None,
        "target_lang": languages.target or None,
        "separate_vocabs": separate,
        "model_max_length": MAX_LENGTH,
        "eos_token": END,
        "unk_token": UNKNOWN,
        "pad_token": PADDING,
        "clean_up_tokenization_spaces": False,
    }
    write_files(folder, {"tokenizer_config.json": config})
    return {"pad_token_id": size + 2, "eos_token_id": 0, "decoder_start_token_id": size + 2}


def _write_tokenizer(translator: TrainedTranslator, folder: Path) -> dict[str, int]:
    """Write the tokenizer as it is, which puts an end mark after a text; return the ids of the special entries."""
    write_files(folder, fast_tokenizer_files(translator.tokenizer_settings[0], MAX_LENGTH))
    return {"pad_token_id": PAD_ID, "eos_token_id": EOS_ID, "decoder_start_token_id": BOS_ID}


def _config(model: ModelConfig, size: int, ids: Mapping[str, int]) -> dict[str, Any]:
    sizes = {"attention_heads": model.num_heads, "ffn_dim": model.feed_forward_dim, "layerdrop": 0.0}
    stacks = {
        f"{stack}_{name}": value
        for stack, layers in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers))
        for name, value in {"layers": layers, **sizes}.items()
    }
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": size,
        "decoder_vocab_size": size,
        "share_encoder_decoder_embeddings": model.target_vocab_size is None,
        "tie_word_embeddings": True,
        "d_model": model.model_dim,
        "num_hidden_layers": model.encoder_layers,
        "max_position_embeddings": model.max_positions,
        "activation_function": _ACTIVATIONS[model.activation],
        "scale_embedding": model.scale_embeddings,
        "dropout": model.dropout,
        "attention_dropout": model.attention_dropout,
        "activation_dropout": 0.0,
        "dtype": "float32",
        **stacks,
        **ids,
    }


def _generation(translator: TrainedTranslator, ids: Mapping[str, int]) -> dict[str, Any]:
    return {
        "num_beams": BeamOptions().beam_size,
        "length_penalty": translator.length_penalty,
        "max_length": MAX_LENGTH,
        "bad_words_ids": [[number] for number in sorted({ids["pad_token_id"], ids["decoder_start_token_id"]})],
        **ids,
    }


def _read_back(translator: TrainedTranslator, weights: Mapping[str, Tensor], folder: Path) -> Parity:
    """Compare every weight in the file with ours, where the program that runs it is not installed."""
    stored = read_checkpoint(folder, (), (), ()).loaded().weights
    for name, weight in weights.items():
        if name not in stored or not torch.equal(stored[name], weight):
            raise DataError(
                "{run}: {name} is not read back as it was written; nothing was written", translator.run, name
            )
    program = msg("every weight by dikkat's own reader, since transformers and sentencepiece are not installed")
    return Parity(program, 0, 0.0)
