"""Write a translator of a run as graphs of ONNX, compared with the run before they take their name."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from dikkat.interop.parity import whole_folder
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat_runtime.errors import UsageError
from dikkat_runtime.files import write_atomically

LARGEST_FILE = (1 << 31) - (1 << 20)
"""Bytes of the weights of a graph: the format holds 2 GiB a file."""


def export_onnx(run: Path, out: Path, count: int | None = None) -> str:
    """Write the folder `out`, new or empty, and return how it was compared with the run, by `count` sentences.

    Raises `UsageError` where ONNX is not installed, or a model is too large for it, `DataError` where the graphs
    compute something else, and `CannotCreateError` or `DiskError`; nothing is then written.
    """
    if find_spec("onnx") is None or find_spec("onnxruntime") is None:
        raise UsageError("--to onnx needs onnx and onnxruntime: pip install 'dikkat[onnx]'")
    from dikkat.interop.folder_parity import SENTENCES, check_folder
    from dikkat.interop.onnx_export.decoder import decoder_graph
    from dikkat.interop.onnx_export.encoder import encoder_graph
    from dikkat.interop.onnx_export.program import DECODER, ENCODER, OnnxTranslator
    from dikkat.interop.onnx_export.readme import readme
    from dikkat.interop.onnx_export.settings_files import settings_files

    with whole_folder(out) as draft:
        translator = TrainedTranslator.open(run)
        network = translator.network
        size = 4 * sum(parameter.numel() for parameter in network.parameters())
        if size > LARGEST_FILE:
            raise UsageError(f"{run}: its weights are {size:,} bytes, and a file of ONNX holds {LARGEST_FILE:,}")
        (draft / ENCODER).parent.mkdir()
        for name, graph in ((ENCODER, encoder_graph(network)), (DECODER, decoder_graph(network))):
            write_atomically(draft / name, graph.SerializeToString())
        files = {**settings_files(translator), "README.md": readme(translator, out.resolve().name).encode()}
        for name, content in files.items():
            write_atomically(draft / name, content)
        program = OnnxTranslator(draft, add_source_eos=translator.model.add_source_eos)
        return str(check_folder(translator, draft, program, SENTENCES if count is None else count))
