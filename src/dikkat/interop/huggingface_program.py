"""Run a MarianMT folder by Hugging Face's transformers, to compare what it computes with the run it was made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from dikkat.interop.parity import Parity, check_parity
from dikkat.interop.piece_vocabulary import VocabularyOrder
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat_runtime.special_tokens import EOS_ID


def compared_by_transformers(
    translator: TrainedTranslator, folder: Path, order: VocabularyOrder | None, texts: Sequence[str]
) -> Parity:
    """Return how the folder compares with the run. Raises `DataError` where it computes something else."""
    import transformers

    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    if hasattr(tokenizer, "normalize"):
        # Hugging Face normalises punctuation where sacremoses is installed, which is no part of the model
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
        start = [model.config.decoder_start_token_id]
        targets = torch.tensor([start + [rows[number] for number in target]])
        computed: Tensor = model(input_ids=sources, decoder_input_ids=targets).logits[0]
        size = translator.model.target_vocab_size or translator.model.vocab_size
        return computed[:, rows[:size]]

    return check_parity(translator, f"transformers {transformers.__version__}", write, logits, texts)
