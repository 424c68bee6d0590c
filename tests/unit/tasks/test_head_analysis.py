"""Every head of an untrained translator, measured on a few pairs."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from tests.unit.tasks.conftest import SENTENCES, TRANSLATIONS

from dikkat.run_directory import RunDirectory
from dikkat.tasks.inspection.head_analysis import examine_heads
from dikkat_runtime.errors import DataError, MissingInputError, UsageError
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.tokenizer import Tokenizer


@pytest.fixture(autouse=True)
def _fast(unchecked_shapes: None) -> None:
    """Dozens of passes: the checks of shapes would cost most of it."""


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "pairs.tsv"
    lines = [*zip(SENTENCES, TRANSLATIONS, strict=True), ("", "boş"), ("  ", "")]
    path.write_text("".join(f"{source}\t{target}\n" for source, target in lines), encoding="utf-8")
    return str(path)


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_every_head_is_measured(untrained: Path, data: str) -> None:
    result = examine_heads(untrained, [data])
    assert result.sentences == 5
    assert len(result.heads) == 2 * 4 + 2 * 2 * 4
    # an untrained model knows nothing of its vocabulary
    assert result.whole.loss == pytest.approx(math.log(340), rel=0.15)
    for item in result.heads:
        assert (item.agreement is not None) == (item.head.kind == "cross")
        assert 0 < item.stats.entropy_share <= 1 + 1e-9
    assert result.alignment_head is not None
    assert result.alignment_head.agreement is not None
    agreements = [item.agreement.occlusion for item in result.heads if item.agreement is not None]
    assert result.alignment_head.agreement.occlusion == max(agreements)
    assert result.pruned == ()


def test_words_one_by_one_are_the_whole_sentence(untrained: Path) -> None:
    """What lets gold alignments, which are of words, judge heads, which are of subwords."""
    tokenizer = Tokenizer.load(RunDirectory.open(untrained).tokenizer)
    for text in (*SENTENCES, *TRANSLATIONS, "a\u0301 (b) 12,5 — ĥoro's", "x"):
        pieces = tokenizer.encode_batch(text.split())
        assert [token for word in pieces for token in word] == tokenizer.encode(text)


def test_gold_alignments_judge_the_heads(untrained: Path, data: str, tmp_path: Path) -> None:
    gold = write(tmp_path / "gold", "0-0 1-0 2-0 3-1 4-2", "0-0 1p0 2-1", "0-3 1-2 2-1 3-0 4-2", "0-0", "0-0", "", "")
    result = examine_heads(untrained, [data], gold=gold)
    errors = [
        item.agreement.scores.error for item in result.heads if item.agreement is not None and item.agreement.scores
    ]
    assert len(errors) == 8
    assert result.alignment_head is not None
    assert result.alignment_head.agreement is not None
    assert result.alignment_head.agreement.scores is not None
    assert result.alignment_head.agreement.scores.error == min(errors) > 0


def test_pruning_is_measured_on_other_pairs(untrained: Path, data: str) -> None:
    result = examine_heads(untrained, [data], sentences=2, prune=24)
    assert (result.sentences, result.other_sentences) == (2, 2)
    assert [len(item.off) for item in result.pruned][::9] == [1, 24]
    assert len(result.pruned) == 10
    by_loss = sorted(result.heads, key=lambda item: item.cost.loss)
    assert list(result.pruned[-1].off) == [item.head for item in by_loss]
    assert result.pruned[-1].cost.loss != 0


def test_the_model_is_left_as_it_was(untrained: Path, data: str) -> None:
    before = [item.text for item in Translator.load(untrained).translate(SENTENCES)]
    examine_heads(untrained, [data], sentences=1, prune=0)
    assert [item.text for item in Translator.load(untrained).translate(SENTENCES)] == before


def test_without_data_the_held_out_validation_part_is_taken(untrained: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match=r"held_out/validation\.source\.txt: there is no such file"):
        examine_heads(untrained)


class TestBadInput:
    def test_too_many_heads(self, untrained: Path, data: str) -> None:
        with pytest.raises(UsageError, match=r"^--prune 25: this model has only 24 heads to switch off$"):
            examine_heads(untrained, [data], prune=25)

    def test_pruning_on_one_pair(self, untrained: Path, tmp_path: Path) -> None:
        pair = write(tmp_path / "one.tsv", "go !\tgit !")
        with pytest.raises(UsageError, match="--prune needs two pairs or more: heads are chosen on some"):
            examine_heads(untrained, [str(pair)], prune=1)

    def test_gold_of_another_length(self, untrained: Path, data: str, tmp_path: Path) -> None:
        gold = write(tmp_path / "gold", "0-0", "0-0")
        with pytest.raises(DataError, match=r"gold has 2 lines, but there are 7 pairs; line N must align the words of"):
            examine_heads(untrained, [data], gold=gold)

    def test_gold_beyond_a_sentence(self, untrained: Path, data: str, tmp_path: Path) -> None:
        gold = write(tmp_path / "gold", "0-0", "0-2", "0-0", "0-0", "0-0", "", "")
        with pytest.raises(DataError, match=r"gold:2: link 0-2: the target has only the words 0 to 1; words are split"):
            examine_heads(untrained, [data], gold=gold)

    def test_no_pair_at_all(self, untrained: Path, tmp_path: Path) -> None:
        pair = write(tmp_path / "none.tsv", "go !\t ")
        with pytest.raises(DataError, match="there is no pair to examine: each has an empty side"):
            examine_heads(untrained, [str(pair)])
