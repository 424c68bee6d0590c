"""Name the files and folders of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dikkat.run_directory.parts import check_array
from dikkat_runtime.run.manifest import checked
from dikkat_runtime.run.parts import CORPUS, TARGET_TOKENIZER, check_folder


@dataclass(frozen=True, slots=True)
class RunPaths:
    """Return the path of each part of one run; reading a part that a manifest lists checks it first."""

    path: Path

    @property
    def config(self) -> Path:
        """Return the path of format version, dikkat version and settings."""
        return self.path / "config.json"

    @property
    def tokenizer(self) -> Path:
        """Return the path of the tokenizer, in the format of the `tokenizers` library; raises as `checked`."""
        return checked(self.path, "tokenizer.json")

    @property
    def target_tokenizer(self) -> Path:
        """The tokenizer of the target, in a run whose vocabularies are separate; raises as `checked`."""
        return checked(self.path, TARGET_TOKENIZER)

    @property
    def initial(self) -> Path:
        """Return the path of the initial weights, where they are not random; raises as `checked`."""
        return checked(self.path, "initial.safetensors")

    @property
    def weights(self) -> Path:
        """Return the path of the weights to use."""
        return self.path / "model.safetensors"

    @property
    def card(self) -> Path:
        """Return the path of the model card, the last file that a run writes."""
        return checked(self.path, "card.md")

    @property
    def precision(self) -> Path:
        """The path of precision.json, which tells what eight bits cost on the validation part; raises as `checked`."""
        return checked(self.path, "precision.json")

    @property
    def metrics(self) -> Path:
        """Return the path of the metrics, one line for each validation; raises as `checked`."""
        return checked(self.path, "metrics.jsonl")

    @property
    def checkpoints(self) -> Path:
        """Return the folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def corpus(self) -> Path:
        """Return the folder of the memory-mapped training data; raises as `checked`."""
        folder = self.path / "corpus"
        check_folder(folder)
        for name in CORPUS:
            path = checked(self.path, name)
            if self.has_config:
                check_array(path)
        return folder

    def held_out(self, part: Literal["validation", "test"], side: Literal["source", "target"]) -> Path:
        """Return the text file of one side of a part that is never trained on; raises as `checked`."""
        check_folder(self.path / "held_out")
        return checked(self.path, f"held_out/{part}.{side}.txt")

    @property
    def is_finished(self) -> bool:
        """Return whether the run is finished."""
        return (self.path / "card.md").exists()

    @property
    def has_config(self) -> bool:
        """Return whether the preparation of the data is finished."""
        return self.config.exists()
