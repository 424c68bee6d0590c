"""The test files that take longest, which begin first: one that began last would keep one process busy alone."""

from __future__ import annotations

from collections.abc import Sequence

LONGEST_FILES = (
    "tests/system/test_doctor.py",
    "tests/docs/test_seed_pages.py",
    "tests/docs/test_attention_pages.py",
    "tests/system/test_resume.py",
    "tests/system/test_language_model.py",
    "tests/docs/checklist/test_seed_004.py",
    "tests/system/test_honesty.py",
    "tests/system/test_tasks.py",
    "tests/unit/tasks/test_training.py",
    "tests/system/test_every_command.py",
    "tests/unit/tasks/test_quickstart.py",
    "tests/runtime/server/test_page_in_browser.py",
    "tests/parity/test_huggingface_marian.py",
    "tests/runtime/shards/test_killed.py",
    "tests/runtime/test_parity.py",
    "tests/unit/explain/test_plots.py",
    "tests/unit/training/test_saving.py",
    "tests/unit/phrasebook/test_generate.py",
    "tests/system/test_page.py",
    "tests/system/test_readers_explained.py",
    "tests/docs/test_images_page.py",
    "tests/unit/training/distributed/test_ranks.py",
    "tests/parity/test_hypothesis_attention.py",
)
"""By processor time on two cores, about twenty seconds and more."""


def index_of(node_id: str, longest: Sequence[str] = LONGEST_FILES) -> int:
    """Return the index of a test's file among the longest; all others come after them."""
    path = node_id.partition("::")[0]
    return longest.index(path) if path in longest else len(longest)
