"""The test files that take longest, which begin first: one that began last would keep one process busy alone."""

from __future__ import annotations

from collections.abc import Sequence

MAX_FILES_LENGTH = (
    "tests/system/test_every_command.py",
    "tests/runtime/shards/test_killed.py",
    "tests/runtime/server/test_workers.py",
    "tests/system/test_resume.py",
    "tests/system/test_page.py",
    "tests/attacks/test_faults_of_files.py",
    "tests/system/test_live_page.py",
    "tests/runtime/server/test_page_in_browser.py",
    "tests/parity/test_same_answers.py",
    "tests/unit/training/distributed/test_exchanges.py",
    "tests/runtime/server/test_process.py",
    "tests/attacks/test_crash_points.py",
    "tests/parity/test_browser_engine.py",
    "tests/system/test_attend.py",
    "tests/unit/documents/test_linear_time.py",
    "tests/parity/test_huggingface_families.py",
    "tests/docs/test_how_to.py",
    "tests/docs/test_site.py",
    "tests/system/test_classifier.py",
    "tests/runtime/server/test_attacked.py",
    "tests/system/test_tuned_models.py",
    "tests/docs/checklist/test_seed_004.py",
    "tests/system/test_tasks.py",
    "tests/unit/explain/test_plots.py",
    "tests/runtime/test_terms.py",
    "tests/unit/training/test_loop.py",
    "tests/unit/tasks/test_word_table.py",
    "tests/unit/tasks/test_training.py",
    "tests/runtime/shards/test_command.py",
    "tests/unit/explain/doctor/test_examination.py",
    "tests/parity/test_browser_decoders.py",
    "tests/unit/phrasebook/test_generate.py",
    "tests/system/test_bad_input.py",
    "tests/system/test_doctor.py",
    "tests/unit/tasks/test_quickstart.py",
    "tests/docs/test_attention_pages.py",
    "tests/unit/interop/test_huggingface_export.py",
)
"""By seconds of one process of their own, waits included, about seven and more (2026-11-30)."""


def index_of(node_id: str, longest: Sequence[str] = MAX_FILES_LENGTH) -> int:
    """Return the index of a test's file among the longest; all others come after them."""
    path = node_id.partition("::")[0]
    return longest.index(path) if path in longest else len(longest)
