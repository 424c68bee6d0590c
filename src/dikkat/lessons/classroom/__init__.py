"""The classes of the five source documents, in their own names and shapes, composed of `dikkat.nn`.

`textbook` has those of *Dive into Deep Learning* (002 and 004), `nyu` those of the NYU course (000), `scratch` those of
*Build a Large Language Model (From Scratch)* (001). Their faults, F1 to F40
of docs/checklist.md, are corrected.
"""

from dikkat.evaluation.scores import bleu_k as bleu
from dikkat.lessons.classroom import nyu, scratch, textbook
from dikkat.lessons.classroom.nyu import KeyValueStore
from dikkat.lessons.classroom.translating import (
    Vocab,
    decoder_attention_weights,
    encoder_attention_weights,
    load_data_nmt,
    plot_positions,
    predict_seq2seq,
    show_heatmaps,
    train_seq2seq,
)
from dikkat.lessons.classroom.weights import load_weights, weights_in

__all__ = [
    "KeyValueStore",
    "Vocab",
    "bleu",
    "decoder_attention_weights",
    "encoder_attention_weights",
    "load_data_nmt",
    "load_weights",
    "nyu",
    "plot_positions",
    "predict_seq2seq",
    "scratch",
    "show_heatmaps",
    "textbook",
    "train_seq2seq",
    "weights_in",
]
