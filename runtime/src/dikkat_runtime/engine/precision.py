"""Choose the precision of a run from its measured loss in eight bits.

A training scores its final weights on the validation part in float32 and in int8, and writes both scores to
`precision.json`, with the checksum of those weights.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from dikkat_runtime.engine.options import NativePrecision
from dikkat_runtime.errors import DataError, UsageError, msg, unreadable
from dikkat_runtime.files import read_regular
from dikkat_runtime.run.manifest import checked
from dikkat_runtime.run.parts import WEIGHTS
from dikkat_runtime.run.strict_json import parse_json
from dikkat_runtime.run.weights import STORED_PRECISION, read_checksum, read_note, require_weights

PrecisionName = Literal["auto", "float32", "int8", "int4", "float16"]
"""The precision that a user asks for; "auto" is int8 where enough texts have shown next to no loss, else float32."""
RECORD = "precision.json"
MAX_RECORD_SIZE = 1 << 12
"""Bytes."""
NOT_MEASURED = msg("int8 was not measured in this run")
STORED_IN_BYTES = msg("the weights are stored in eight bits")


@dataclass(frozen=True, slots=True)
class Measure:
    """A score of a kind of model, and the loss in it that eight bits may cost."""

    limit: float
    """The largest loss at which int8 is taken; in points, or in percent of the score in float32."""
    unit: str
    """The unit of the loss, in words."""
    is_relative: bool = False
    lower_is_better: bool = False
    fewest: int = 100
    """The texts below which no loss is believed: where 100 answers stay the same, up to 3 in 100 may still change."""


MEASURES = {
    "chrf": Measure(0.1, "chrF"),
    "accuracy": Measure(0.1, msg("points of accuracy")),
    "macro_f1": Measure(0.1, msg("points of macro F1")),
    "micro_f1": Measure(0.1, msg("points of micro F1")),
    "perplexity": Measure(0.5, msg("% of perplexity"), is_relative=True, lower_is_better=True, fewest=10),
}
"""The measures by the names of their columns in metrics.jsonl."""


@dataclass(frozen=True, slots=True)
class PrecisionRecord:
    """Scores of one run's weights on its validation part."""

    measure: str
    """One of `MEASURES`."""
    float32: float
    int8: float
    count: int
    """Sentences, texts, or windows of a language model, each of hundreds of tokens."""
    weights: str
    """The checksum of the weights."""

    @property
    def loss(self) -> float:
        """The loss of int8 in the unit of the measure; negative where int8 is better."""
        measure = MEASURES[self.measure]
        loss = self.int8 - self.float32 if measure.lower_is_better else self.float32 - self.int8
        return 100 * loss / self.float32 if measure.is_relative else loss

    @property
    def change(self) -> str:
        """The gain or loss of int8, in words."""
        unit, loss = MEASURES[self.measure].unit, round(self.loss, 2)
        return msg("gains {loss:.2f} {unit}", -loss, unit) if loss < 0 else msg("loses {loss:.2f} {unit}", loss, unit)

    @property
    def is_close(self) -> bool:
        """True where int8 loses next to nothing on these texts."""
        # NaN is above every limit
        return self.loss <= MEASURES[self.measure].limit

    @property
    def has_too_few(self) -> bool:
        """True where the texts are too few to believe the loss."""
        return self.count < MEASURES[self.measure].fewest

    @property
    def precision(self) -> NativePrecision:
        """The precision that is taken where nobody asks for another."""
        return "int8" if self.is_close and not self.has_too_few else "float32"

    def __str__(self) -> str:
        if self.has_too_few:
            return msg("{count:,} validation texts are too few to choose int8; at least {minimum} are needed").fill(
                self.count, MEASURES[self.measure].fewest
            )
        name = "" if self.precision == "int8" else "int8 "
        return msg("{name}{change} on the validation part", name, self.change)

    def json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"


def read_record(run: Path) -> PrecisionRecord | None:
    """Return the scores that training measured of the present weights of a run, or None where it measured none.

    Raises `DataError` for a record that is damaged, and the errors of reading the weights' header.
    """
    path = checked(run, RECORD)
    try:
        content = parse_json(read_regular(path, MAX_RECORD_SIZE))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError as error:
        raise DataError(
            "{path}: damaged: not valid JSON ({error}); delete it, and float32 is used", path, error
        ) from None
    record = _checked(content)
    if record is None:
        raise DataError("{path}: damaged: not a record of precisions; delete it, and float32 is used", path)
    return record if record.weights == read_checksum(run / "model.safetensors") else None


def choose_precision(run: Path, asked: PrecisionName) -> tuple[NativePrecision, str]:
    """Return the precision for the native engine, and the reason where it was not asked for.

    Raises as `read_record` and `native_precision`.
    """
    native = native_precision(asked)
    if native != "auto":
        return native, ""
    require_weights(run / WEIGHTS)
    if read_note(run / WEIGHTS, STORED_PRECISION) == "int8":
        return "int8", STORED_IN_BYTES
    record = read_record(run)
    return ("float32", NOT_MEASURED) if record is None else (record.precision, str(record))


def native_precision(asked: PrecisionName) -> NativePrecision | Literal["auto"]:
    """Return the precision that is asked of the native engine. Raises `UsageError` for float16."""
    if asked == "float16":
        raise UsageError("float16 is for GPUs; leave it out, or add --device cuda")
    return asked


def _checked(content: Any) -> PrecisionRecord | None:
    if not isinstance(content, Mapping) or set(content) != set(PrecisionRecord.__dataclass_fields__):
        return None
    is_sound = (
        content["measure"] in MEASURES
        and all(type(score) in (int, float) and score >= 0 for score in (content["float32"], content["int8"]))
        and (content["float32"] > 0 or not MEASURES[content["measure"]].is_relative)
        and type(content["count"]) is int
        and isinstance(content["weights"], str)
    )
    return PrecisionRecord(**content) if is_sound else None
