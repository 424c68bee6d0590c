"""The content of an attention page, and its JSON.

Three kinds of map are told apart: "encoder-self", "decoder-self" and "cross". Layers and heads count from 0.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from dikkat_runtime.errors import UsageError
from dikkat_runtime.localization import script_messages

_HERE = Path(__file__).parent
SCRIPTS = (
    "language.js", "state.js", "elements.js", "colours.js", "weights.js", "picture.js", "tokens.js", "readout.js",
    "heat_map.js", "links.js", "text_view.js", "beam_tree.js", "decoding.js", "differences.js", "heads_off.js",
    "importance.js", "roles.js", "hypotheses.js", "controls.js", "keyboard.js", "training.js", "lesson.js",
    "drawing.js",
)  # fmt: skip
"""Scripts of every page in the order in which they run, all in one scope; the last one follows."""

_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
# half a surrogate pair, as in the name of a file, is not UTF-8
_ESCAPES |= {code: f"\\u{code:04x}" for code in range(0xD800, 0xE000)}
LANGUAGES = ("en", "tr")


def assemble(page: "Page", language: str = "en", refresh: int | None = None) -> str:
    """Return the whole HTML file; `language` (one of `LANGUAGES`) is the one it opens in.

    With `refresh` it reloads itself after so many seconds.

    Its content security policy allows this one script and this one style by their hashes and nothing else: no request,
    no frame, no form, no code from data. Raises `UsageError` for another language.
    """
    scripts = {"SCRIPT": page_script([asset("start.js")])}
    template = asset("page.html")
    if refresh is not None:
        template = template.replace("<title>", f'<meta http-equiv="refresh" content="{refresh}">\n<title>', 1)
    return fill(template, language, asset("page.css"), scripts, {"DATA": inert(as_json(page))})


def fill(
    template: str,
    language: str,
    style: str,
    scripts: Mapping[str, str],
    data: Mapping[str, str],
    *,
    scripts_may: str = "",
    policy_end: str = "",
) -> str:
    """Return a page of `template` with everything in it, and a policy that knows `style` and `scripts` by their hashes.

    `data` is filled in last, so that nothing in it is taken for a part to fill. `scripts_may` is what the policy allows
    scripts of a page, and `policy_end` what else it allows. Raises `UsageError` for another language.
    """
    if language not in LANGUAGES:
        raise UsageError('a page speaks {languages}, not "{language}"', " or ".join(LANGUAGES), language)
    style = "\n" + style
    sources = " ".join([*map(_source, scripts.values()), *filter(None, [scripts_may])])
    policy = f"default-src 'none'; script-src {sources}; style-src {_source(style)}; {policy_end}"
    policy += "base-uri 'none'; form-action 'none'"
    html = template
    for name, content in {"LANGUAGE": language, "POLICY": policy, "STYLE": style, **scripts, **data}.items():
        html = html.replace("{{" + name + "}}", content, 1)
    return html


def page_script(own: Sequence[str]) -> str:
    """Return one script of what this page says in other languages, the scripts that every page runs, and its own."""
    scripts = [*map(asset, SCRIPTS), *own]
    return in_one_scope([f"const MESSAGES = {inert(script_messages(''.join(scripts)))};", *scripts])


def in_one_scope(scripts: Sequence[str]) -> str:
    """Return one script that runs all of `scripts` in one function, so that no name of theirs is global."""
    bodies = "\n".join(scripts)
    return f'\n(() => {{\n"use strict";\n{bodies}}})();\n'


def inert(content: str) -> str:
    """Return JSON that no HTML parser can leave: the characters of markup are escaped inside its strings."""
    return content.translate(_ESCAPES)


def _source(content: str) -> str:
    """The hash by which a content security policy knows an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode('ascii')}'"


def asset(name: str) -> str:
    """Return the text of a file of this folder."""
    return (_HERE / name).read_text(encoding="utf-8")


# Encode attention weights as text: a byte for each weight, and only the largest of very long rows.
#
# A weight w in [0, 1] is stored as round(255 · sqrt(w)), so that small weights keep their order: the error is at most
# sqrt(w) / 255 + 1 / 510², never above 0.004, and zero stays exactly zero.

Weights = npt.NDArray[np.float32]

KEPT = 12
"""Weights that a long row keeps."""


def packed(weights: Weights, longest_dense: int) -> dict[str, Any]:
    """Return `shape` and base64 `weights` of (H, T, S) weights; rows over `longest_dense` keep KEPT and their `keys`.

    Keys are little-endian 16-bit places. Raises `ValueError` unless the weights lie in [0, 1] and S fits in 16 bits.
    """
    if (
        weights.ndim != 3
        or not weights.size
        or weights.min() < 0
        or weights.max() > 1.001
        or weights.shape[2] > 1 << 16
    ):
        raise ValueError(f"weights (H, T, S) in [0, 1] with S <= 65536 are needed, but their shape is {weights.shape}")
    encoded: dict[str, Any] = {"shape": list(weights.shape)}
    if weights.shape[2] > max(longest_dense, KEPT):
        # the order within a row carries no meaning, so a partial sort is enough
        keys = np.argpartition(-weights, KEPT, axis=-1)[..., :KEPT]
        weights = np.take_along_axis(weights, keys, axis=-1)
        encoded["keys"] = _encoded_bytes(keys.astype("<u2"))
    encoded["weights"] = _encoded_bytes(np.rint(255 * np.sqrt(weights.clip(0, 1))).astype(np.uint8))
    return encoded


def packed_bytes(shape: tuple[int, ...], longest_dense: int) -> int:
    """Return the bytes that `packed` needs for weights of this shape, before base64."""
    heads, queries, keys = shape
    return heads * queries * (3 * KEPT if keys > max(longest_dense, KEPT) else keys)


def _encoded_bytes(array: npt.NDArray[Any]) -> str:
    return base64.b64encode(array.tobytes()).decode("ascii")


MapKind = Literal["encoder-self", "decoder-self", "cross"]
Maps = Mapping[MapKind, Sequence[Weights]]
"""One (H, T, S) array a layer, for each kind."""

FORMAT_VERSION = 1
BUDGET = 3_200_000
"""Bytes of maps, before base64, above which long sentences keep only the largest weights of each row."""
_MAX_DENSE_LENGTH = (320, 160, 80, 40)


@dataclass(frozen=True, slots=True)
class TokenizedText:
    """Hold a text, the labels of its tokens, and the word that each token belongs to."""

    text: str
    tokens: tuple[str, ...]
    """Labels, special tokens included: a source may end with `<eos>`, a target begins with `<bos>` and ends with
    `<eos>` if it was written."""
    word_numbers: tuple[int, ...]
    """Word number of each token, rising from 0."""
    words: tuple[str, ...]

    def __post_init__(self) -> None:
        numbers = self.word_numbers
        steps = zip((-1, *numbers), (*numbers, len(self.words)), strict=True)
        if len(numbers) != len(self.tokens) or any(after - before not in (0, 1) for before, after in steps):
            raise ValueError(f"{len(self.tokens)} tokens need word numbers that rise from 0 to {len(self.words) - 1}")


class Candidate(NamedTuple):
    """Hold a hypothesis that one step of the search considered."""

    parent: int
    """Index of the hypothesis it continues among those that survive the step before, 0 the best."""
    token: str
    log_probability: float
    """Log-probability of the whole hypothesis, in nats."""
    score: float
    fate: Literal["lives", "ends", "falls"]


@dataclass(frozen=True, slots=True)
class Beam:
    """Hold the search that found the target."""

    size: int
    steps: Sequence[Sequence[Candidate]]
    """Candidates of each step, best first."""
    hypotheses: Sequence[tuple[str, Sequence[int]]]
    """Text of each hypothesis that the search ended with, and index of its candidate of each step; first the target."""


class HeadOff(NamedTuple):
    """Hold what the model writes without one head."""

    kind: MapKind
    layer: int
    head: int
    text: str
    score: float


@dataclass(frozen=True, slots=True, eq=False)
class Saliency:
    """Hold two other measures (T, S) of which source token mattered for a target token; each row sums to 1."""

    gradient: Weights
    """Absolute value of gradient × input."""
    occlusion: Weights
    """Absolute log-probability that the target token loses when the source token is hidden."""


@dataclass(frozen=True, slots=True, eq=False)
class PageSentence:
    """Hold one sentence, its output, and everything that is shown of it."""

    source: TokenizedText
    """S tokens."""
    target: TokenizedText
    """T + 1 tokens: row t of a decoder's map read token t and wrote token t + 1."""
    score: float | None
    """Score of the target as the model's own output; None where it is not known."""
    maps: Maps
    rollout: Maps
    """Attention rollout up to each layer, as one head; see `dikkat.explain.head_analysis.importance`."""
    beam: Beam | None
    heads_off: Sequence[HeadOff]
    saliency: Saliency | None
    is_given: bool = False
    """Whether the target is not the model's own output."""


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    """Hold everything in one HTML file."""

    name: str
    """Name of the model."""
    source_language: str
    target_language: str
    sentences: Sequence[PageSentence]
    training: Mapping[str, Any] | None = None
    """What a page over training shows beside its sentences, which are those of one text after the other."""
    lesson: Mapping[str, Any] | None = None
    """A lesson above the sentences; see `dikkat.explain.lesson.answered`."""
    guided: tuple[int, int] | None = None
    """Layer and head of the encoder, from 0, that training told what to attend to."""

    @property
    def kinds(self) -> list[MapKind]:
        return [kind for kind in get_args(MapKind) if all(kind in sentence.maps for sentence in self.sentences)]

    @property
    def tabs(self) -> list[str]:
        """Return the tabs that have something to show: only a decoder with a source writes step by step."""
        if "cross" not in self.kinds:
            return ["maps"]
        kept = {"heads": lambda one: one.heads_off, "importance": lambda one: one.saliency}
        return ["maps", "decoding", *(tab for tab, of in kept.items() if any(map(of, self.sentences)))]


def as_json(page: Page) -> str:
    """Return `page` as JSON in plain ASCII, so that lone surrogates are written too."""
    longest_dense = _longest_dense(page.sentences)
    content = {
        "format": FORMAT_VERSION,
        "name": page.name,
        "sourceLanguage": page.source_language,
        "targetLanguage": page.target_language,
        "kinds": page.kinds,
        "tabs": page.tabs,
        "training": page.training,
        "lesson": page.lesson,
        "guided": page.guided,
        "sentences": [_sentence(sentence, longest_dense) for sentence in page.sentences],
    }
    return json.dumps(content, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def _longest_dense(sentences: Sequence[PageSentence]) -> int:
    shapes = [
        array.shape
        for sentence in sentences
        for maps in (sentence.maps, sentence.rollout)
        for layers in maps.values()
        for array in layers
    ]
    fitting = (limit for limit in _MAX_DENSE_LENGTH if sum(packed_bytes(shape, limit) for shape in shapes) <= BUDGET)
    return next(fitting, _MAX_DENSE_LENGTH[-1])


def _sentence(sentence: PageSentence, longest_dense: int) -> dict[str, Any]:
    saliency = sentence.saliency
    return {
        "source": _text(sentence.source),
        "target": _text(sentence.target),
        "score": None if sentence.score is None else round(sentence.score, 4),
        "isGiven": sentence.is_given,
        "maps": _maps(sentence.maps, longest_dense),
        "rollout": _maps(sentence.rollout, longest_dense),
        "beam": None if sentence.beam is None else _beam(sentence.beam),
        "headsOff": [head_off._replace(score=round(head_off.score, 4)) for head_off in sentence.heads_off],
        "saliency": saliency
        and {
            "gradient": packed(saliency.gradient[None], longest_dense),
            "occlusion": packed(saliency.occlusion[None], longest_dense),
        },
    }


def _text(text: TokenizedText) -> dict[str, Any]:
    return {"text": text.text, "tokens": text.tokens, "wordNumbers": text.word_numbers, "words": text.words}


def _maps(maps: Maps, longest_dense: int) -> dict[str, list[dict[str, Any]]]:
    return {kind: [packed(weights, longest_dense) for weights in layers] for kind, layers in maps.items()}


def _beam(beam: Beam) -> dict[str, Any]:
    """A candidate is [parent, label, log-probability, score, fate]."""
    steps = [
        [one._replace(log_probability=round(one.log_probability, 4), score=round(one.score, 4)) for one in step]
        for step in beam.steps
    ]
    return {"size": beam.size, "steps": steps, "hypotheses": beam.hypotheses}
