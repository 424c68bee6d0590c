"""The test files that take longest, which begin first: one that began last would keep one process busy alone."""

from __future__ import annotations

from collections.abc import Sequence

MAX_FILES_LENGTH = (
    "tests/system/test_every_command.py",
    "tests/system/test_resume.py",
    "tests/system/test_tasks.py",
    "tests/system/test_page.py",
    "tests/system/test_live_page.py",
    "tests/system/test_classifier.py",
    "tests/docs/test_attention_pages.py",
    "tests/system/test_doctor.py",
    "tests/runtime/server/test_page_in_browser.py",
    "tests/runtime/shards/test_killed.py",
    "tests/runtime/server/test_workers.py",
    "tests/unit/tasks/test_quickstart.py",
    "tests/unit/training/test_loop.py",
    "tests/unit/training/distributed/test_ranks.py",
    "tests/system/test_honesty.py",
    "tests/system/test_language_model.py",
    "tests/unit/tasks/test_head_analysis.py",
    "tests/unit/explain/test_plots.py",
    "tests/runtime/shards/test_command.py",
    "tests/docs/test_images_page.py",
    "tests/docs/checklist/test_seed_004.py",
    "tests/unit/training/test_language_modelling.py",
    "tests/unit/tasks/test_training.py",
    "tests/docs/test_seed_pages.py",
    "tests/parity/test_huggingface_marian.py",
    "tests/runtime/test_parity.py",
    "tests/unit/phrasebook/test_generate.py",
    "tests/unit/training/test_saving.py",
    "tests/parity/test_hypothesis_attention.py",
)
"""By processor time, about fifteen seconds and more."""


def index_of(node_id: str, longest: Sequence[str] = MAX_FILES_LENGTH) -> int:
    """Return the index of a test's file among the longest; all others come after them."""
    path = node_id.partition("::")[0]
    return longest.index(path) if path in longest else len(longest)
