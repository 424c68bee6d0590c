"""Write a translator of a run as a folder of CTranslate2, checked before it takes its name."""

import json
from pathlib import Path

import numpy as np

from dikkat.config.model import ABSOLUTE_POSITIONS
from dikkat.interop.ctranslate2.agreement import (
    Checked,
    Precision,
    check_export,
    check_vmap,
    exported_files,
    spelled_entries,
    spelled_prefix,
)
from dikkat.interop.ctranslate2.layout import ACTIVATIONS, GATED
from dikkat.interop.ctranslate2.reading import read_ctranslate2
from dikkat.interop.ctranslate2.vocabularies import OWN_TOKENIZER, PIECES, VMAP, vmap_file
from dikkat.interop.exported_texts import chosen_lines, lowercases_dotted, template
from dikkat.interop.parity import whole_folder
from dikkat.interop.text_parity import write_files
from dikkat.interop.trained_translator import TrainedTranslator, plain_attention, refuse_settings
from dikkat_runtime.engine.shortlist import Shortlist
from dikkat_runtime.run.parts import TARGET_TOKENIZER

_TOKENS = template("ctranslate2_writing.tokens.txt")
_JOINED = "target.decode([target.token_to_id(token) for token in result.hypotheses[0]], skip_special_tokens=False)"
_PIECES = template("ctranslate2_writing.pieces.txt")
_JOINED_PIECES = "target.decode(result.hypotheses[0])"


def readme(translator: TrainedTranslator, name: str, *, has_vmap: bool = False) -> str:
    """Return the text of the readme of the folder `name`; with `has_vmap` the shortlist of the run is in it."""
    count = len(translator.tokenizers)
    library, joined = "tokenizers", _JOINED
    tokens = _TOKENS.format(folder=name, target=(OWN_TOKENIZER, TARGET_TOKENIZER)[count - 1])
    if translator.has_pieces:
        files = PIECES[2 - count]
        library, joined = "sentencepiece", _JOINED_PIECES
        tokens = _PIECES.format(folder=name, source=files[0], target=files[-1])
    forced, first = "", ""
    if (prefix := spelled_prefix(translator)) is not None:
        # JSON escapes a string as Python does
        forced, first = f", target_prefix=[[{json.dumps(prefix, ensure_ascii=False)}]]", "[1:]"
    adds_end, mark = translator.model.add_source_eos, next(iter(translator.language_marks), "")
    reasons = {
        "ended": adds_end,
        "unended": not adds_end,
        "lowercases": lowercases_dotted(translator.tokenizer_settings[0], translator.languages.source),
        "marked": mark,
        "listed": has_vmap,
    }
    return template("ctranslate2_writing.readme.txt").format(
        name=name,
        pair=translator.languages.phrase,
        library=library,
        tokens=tokens,
        penalty=translator.length_penalty,
        forced=forced,
        joined=joined.replace("hypotheses[0]", f"hypotheses[0]{first}"),
        notes="\n".join(chosen_lines("ctranslate2_writing.notes.txt", reasons, mark=mark, quoted=json.dumps(mark))),
    )


def export_ctranslate2(run: Path, out: Path, precision: Precision) -> Checked:
    """Write the folder `out`, new or empty, and return how it was checked.

    Raises `UsageError` naming a setting that CTranslate2 does not compute, `DataError` where the folder does not
    translate as the run does, and `CannotCreateError` or `DiskError`; nothing is then written.
    """
    with whole_folder(out) as draft:
        translator = opened(run)
        files = exported_files(translator, precision)
        listed = _listed(translator)
        if listed is not None:
            files[VMAP] = listed
        write_files(draft, {**files, "README.md": readme(translator, out.resolve().name, has_vmap=VMAP in files)})
        checked = check_export(translator, read_ctranslate2(draft), draft, precision)
        if VMAP in files:
            check_vmap(translator, draft, precision)
        return checked


def _listed(translator: TrainedTranslator) -> bytes | None:
    """The shortlist of a run as CTranslate2 has it; None where there is none, or it cannot be the same."""
    shortlist = translator.shortlist()
    if shortlist is None or not _finds_prefix(shortlist, translator.model.target_prefix):
        return None
    lists = spelled_entries(translator)
    # with a piece for each byte, and in byte-level BPE, nothing is unknown
    reads_unknown = translator.has_pieces and not {f"<0x{byte:02X}>" for byte in range(256)} <= set(lists[0])
    return vmap_file(shortlist, lists[0], lists[-1], reads_unknown=reads_unknown)


def _finds_prefix(shortlist: Shortlist, prefix: int | None) -> bool:
    """Whether CTranslate2 begins every output with the prefix where it writes the words of this list alone.

    It allows the prefix in any case. It takes it for the word that stands among those of a sentence where the prefix
    stood among those of the first sentence (to_output_word_id in src/layers/decoder.cc, 4.8.5, forgets nothing), so
    that there must be as many words before it in every sentence.
    """
    if prefix is None:
        return True
    before = shortlist.words[shortlist.words < prefix]
    return bool(np.isin(prefix, shortlist.always) and np.isin(before, shortlist.always).all())


def opened(run: Path) -> TrainedTranslator:
    """Return the translator of a run. Raises `UsageError` naming the settings that CTranslate2 does not compute."""
    translator = TrainedTranslator.open(run)
    wanted = {
        "activation": (*ACTIVATIONS, *GATED),
        "positions": ABSOLUTE_POSITIONS,
        **plain_attention(translator.model),
        "decoder_memory": "attention",
    }
    refuse_settings(translator, "CTranslate2", wanted)
    return translator
