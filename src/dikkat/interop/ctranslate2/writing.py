"""Write a translator of a run as a folder of CTranslate2, checked before it takes its name."""

from __future__ import annotations

from pathlib import Path

from dikkat.config.position_names import ABSOLUTE_POSITIONS
from dikkat.interop.ctranslate2.agreement import Checked, check_export
from dikkat.interop.ctranslate2.exported_files import Precision, exported_files
from dikkat.interop.ctranslate2.layout import ACTIVATIONS, GATED
from dikkat.interop.ctranslate2.reading import read_ctranslate2
from dikkat.interop.ctranslate2.readme import readme
from dikkat.interop.parity import whole_folder
from dikkat.interop.trained_translator import TrainedTranslator, refuse_settings
from dikkat_runtime.files import write_atomically


def export_ctranslate2(run: Path, out: Path, precision: Precision) -> Checked:
    """Write the folder `out`, new or empty, and return how it was checked.

    Raises `UsageError` naming a setting that CTranslate2 does not compute, `DataError` where the folder does not
    translate as the run does, and `CannotCreateError` or `DiskError`; nothing is then written.
    """
    with whole_folder(out) as draft:
        translator = opened(run)
        for name, content in exported_files(translator, precision).items():
            write_atomically(draft / name, content)
        write_atomically(draft / "README.md", readme(translator, out.resolve().name).encode())
        return check_export(translator, read_ctranslate2(draft), draft, precision)


def opened(run: Path) -> TrainedTranslator:
    """Return the translator of a run. Raises `UsageError` naming the settings that CTranslate2 does not compute."""
    translator = TrainedTranslator.open(run)
    model = translator.model
    wanted: dict[str, tuple[object, object]] = {
        "model.activation": (model.activation, (*ACTIVATIONS, *GATED)),
        "model.positions": (model.positions, ABSOLUTE_POSITIONS),
        "model.score": (model.score, "scaled_dot"),
        "model.inverse_temperature": (model.inverse_temperature, None),
        "model.selection": (model.selection, "soft"),
        "model.attention_window": (model.attention_window, None),
        "model.num_kv_heads": (model.num_kv_heads, (None, model.num_heads)),
        "model.head_dim": (model.head_dim, (None, model.model_dim // model.num_heads)),
        "model.embedding_norm": (model.embedding_norm, False),
        "model.decoder_memory": (model.decoder_memory, "attention"),
        "model.positions_in_every_layer": (model.positions_in_every_layer, False),
    }
    refuse_settings(run, "CTranslate2", wanted)
    return translator
