"""The test files that take longest, which begin first: one that began last would keep one process busy alone."""

from __future__ import annotations

from collections.abc import Sequence

MAX_FILES_LENGTH = (
    "tests/system/test_every_command.py",
    "tests/system/test_page.py",
    "tests/system/test_live_page.py",
    "tests/runtime/server/test_page_in_browser.py",
    "tests/runtime/shards/test_killed.py",
    "tests/runtime/server/test_workers.py",
    "tests/parity/test_same_answers.py",
    "tests/system/test_resume.py",
    "tests/runtime/server/test_process.py",
    "tests/system/test_classifier.py",
    "tests/unit/documents/test_linear_time.py",
    "tests/system/test_attend.py",
    "tests/parity/test_huggingface_families.py",
    "tests/parity/test_browser_engine.py",
    "tests/docs/test_seed_pages.py",
    "tests/runtime/server/test_attacked.py",
    "tests/system/test_bad_input.py",
    "tests/docs/test_attention_pages.py",
    "tests/system/test_doctor.py",
    "tests/runtime/shards/test_command.py",
    "tests/docs/checklist/test_seed_001_reordering.py",
    "tests/unit/training/test_loop.py",
    "tests/mutations/test_mutations.py",
    "tests/unit/explain/comparison/test_picture.py",
    "tests/runtime/test_terms.py",
    "tests/system/test_tasks.py",
    "tests/unit/explain/doctor/test_examination.py",
    "tests/unit/phrasebook/test_generate.py",
    "tests/unit/interop/test_huggingface_export.py",
    "tests/unit/tasks/test_quickstart.py",
)
"""By seconds of one process of their own, waits included, about eight and more (2026-11-28)."""


def index_of(node_id: str, longest: Sequence[str] = MAX_FILES_LENGTH) -> int:
    """Return the index of a test's file among the longest; all others come after them."""
    path = node_id.partition("::")[0]
    return longest.index(path) if path in longest else len(longest)
