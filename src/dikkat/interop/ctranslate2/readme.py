"""The readme of an exported folder: how a program translates with it."""

from __future__ import annotations

import json

from dikkat.interop.ctranslate2.exported_files import spelled_prefix
from dikkat.interop.ctranslate2.vocabularies import OWN_TOKENIZER, PIECES
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat_runtime.run.parts import TARGET_TOKENIZER
from dikkat_runtime.text.casing import has_dotted_i

_TOKENS = """\
from tokenizers import Tokenizer

source, target = Tokenizer.from_file("{folder}/tokenizer.json"), Tokenizer.from_file("{folder}/{target}")
source.encode_special_tokens = True  # "<eos>" in a text is text
tokens = source.encode("…", add_special_tokens=False).tokens
"""
_JOINED = "target.decode([target.token_to_id(token) for token in result.hypotheses[0]], skip_special_tokens=False)"
_PIECES = """\
from sentencepiece import SentencePieceProcessor

source, target = (SentencePieceProcessor(model_file=name) for name in ("{folder}/{source}", "{folder}/{target}"))
tokens = source.encode("…", out_type=str)
"""
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
    languages = translator.languages
    pair = f" from `{languages.source}` to `{languages.target}`" if languages.source and languages.target else ""
    mark = "CTranslate2 adds the end mark to a source by itself (`add_source_eos`)."
    if not translator.model.add_source_eos:
        mark = "Its sources have no end mark (`add_source_eos`)."
    lowercase = ""
    if '"Lowercase"' in json.dumps(translator.tokenizer_settings[0]) and has_dotted_i(languages.source):
        lowercase = (
            "Its tokenizer lower-cases: compose a text (NFC), and write `I` as `ı` and `İ` as `i` first, as the"
            " language does.\n"
        )
    forced, first = "", ""
    if (prefix := spelled_prefix(translator)) is not None:
        # JSON escapes a string as Python does
        forced, first = f", target_prefix=[[{json.dumps(prefix, ensure_ascii=False)}]]", "[1:]"
    marked = ""
    if marks := translator.language_marks:
        marked = (
            f"A source may begin with the mark of a language, such as `{marks[0]}`, which is a token of its own and not"
            f" cut: `[{json.dumps(marks[0])}, *tokens]`.\n"
        )
    listed = ""
    if has_vmap:
        listed = (
            "With `use_vmap=True` it writes the words of `vmap.txt` alone, the shortlist of the run, which is faster;"
            " of several sentences in a batch (`max_batch_size`) those of any.\n"
        )
    return f"""# {name}

A translator{pair} made by dikkat, for CTranslate2 (`pip install ctranslate2 {library}`).

```python
import ctranslate2
{tokens}
translator = ctranslate2.Translator("{name}")
result = translator.translate_batch([tokens], beam_size=5, length_penalty={translator.length_penalty:g}{forced})[0]
print({joined.replace("hypotheses[0]", f"hypotheses[0]{first}")})
```

The length penalty is that of the run. {mark}
{lowercase}{marked}{listed}"""
