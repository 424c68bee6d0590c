"""The encoder of a classifier, with its pooling, as a source of vectors."""

from __future__ import annotations

from dikkat.run_directory import RunDirectory
from dikkat.tasks.classification.classifier import Classifier
from dikkat.tasks.classification.prepare import read_ids
from dikkat.tasks.common.backbone import Backbone


def classifier_run_backbone(run: RunDirectory) -> Backbone:
    """Load the classifier of `run` as a source of vectors."""
    return classifier_backbone(Classifier.load(run.path))


def classifier_backbone(classifier: Classifier) -> Backbone:
    """The encoder with its own pooling: the vector of a line is what its class is read off."""
    settings = classifier.config.classifier
    return Backbone(
        model=classifier.model,
        stack="encoder",
        encode=lambda text: classifier.encode([text])[0],
        read=lambda ids: read_ids(ids, settings),
        longest=settings.max_tokens,
        pieces=classifier.tokenizer.labels,
        width=classifier.config.model.model_dim,
        hidden=classifier.model.encode,
        pooled=classifier.model.pooling,
    )
