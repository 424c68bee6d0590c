"""The run directory: everything that a run reads back, as safetensors and JSON, never half-written."""

from dikkat.run_directory.checkpoints import Checkpoint
from dikkat.run_directory.directory import HeldOut, RunDirectory

__all__ = ["Checkpoint", "HeldOut", "RunDirectory"]
