"""Write a translator of a run as a folder of CTranslate2, checked before it takes its name."""

from __future__ import annotations

from pathlib import Path

from dikkat.config.position_names import ABSOLUTE_POSITIONS
from dikkat.interop.ctranslate2.agreement import Checked, check_export, check_vmap
from dikkat.interop.ctranslate2.exported_files import Precision, exported_files, spelled_entries
from dikkat.interop.ctranslate2.layout import ACTIVATIONS, GATED
from dikkat.interop.ctranslate2.reading import read_ctranslate2
from dikkat.interop.ctranslate2.readme import readme
from dikkat.interop.ctranslate2.vocabulary_map import VMAP, vmap_file
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
        files = exported_files(translator, precision)
        listed = _listed(translator)
        if listed is not None:
            files[VMAP] = listed
        for name, content in files.items():
            write_atomically(draft / name, content)
        text = readme(translator, out.resolve().name, has_vmap=VMAP in files)
        write_atomically(draft / "README.md", text.encode())
        checked = check_export(translator, read_ctranslate2(draft), draft, precision)
        if VMAP in files:
            check_vmap(translator, draft, precision)
        return checked


def _listed(translator: TrainedTranslator) -> bytes | None:
    """The shortlist of a run as CTranslate2 has it; None where there is none, or it cannot be the same."""
    shortlist = translator.shortlist()
    prefix = translator.model.target_prefix
    # CTranslate2 allows the token that an output begins with, too
    if shortlist is None or (prefix is not None and prefix not in shortlist.always):
        return None
    lists = spelled_entries(translator)
    # with a piece for each byte, and in byte-level BPE, nothing is unknown
    reads_unknown = translator.has_pieces and not {f"<0x{byte:02X}>" for byte in range(256)} <= set(lists[0])
    return vmap_file(shortlist, lists[0], lists[-1], reads_unknown=reads_unknown)


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
