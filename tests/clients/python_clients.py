"""Calls of real clients, run in their own environment: `python python_clients.py CLIENT URL KEY` prints JSON.

Each call has a name; its value is what the client returned, or the class of the error that it raised.
"""

# mypy: ignore-errors

import asyncio
import io
import json
import sys
from dataclasses import asdict

TEXTS = ["Where are my keys?", "The small cat is sleeping."]
TAGGED = 'See <x id="7"></x> now'


def libretranslatepy(url, key):
    from libretranslatepy import LibreTranslateAPI

    client = LibreTranslateAPI(url, key)
    yield "translate", lambda: client.translate(TEXTS[0], "en", "fr")
    yield "detect", lambda: client.detect("Le petit chat dort dans la maison.")[0]["language"]
    yield "languages", lambda: [row["code"] for row in client.languages()]
    yield "unknown language", lambda: client.translate(TEXTS[0], "en", "tlh")


def libretranslate_aio(url, key):
    from libretranslate_aio import AsyncLibreTranslate, LibreTranslate

    client = LibreTranslate(base_url=url, api_key=key)
    yield "translate", lambda: client.translate(TEXTS[0], "en", "fr").translated_text
    yield "list", lambda: client.translate(TEXTS, "en", "fr").translated_text
    yield "alternatives", lambda: client.translate(TEXTS[0], "en", "fr", alternatives=2).alternatives
    yield "auto", lambda: client.translate(TEXTS[1], "auto", "fr").detected_language.language
    yield "html", lambda: client.translate("<p>1 &amp; 2</p>", "en", "fr", format="html").translated_text
    yield "detect", lambda: client.detect("Le petit chat dort dans la maison.")[0].language
    yield "languages", lambda: [item.code for item in client.languages()]
    yield "settings", lambda: asdict(client.frontend_settings())["language"]["target"]["code"]
    yield "health", lambda: str(client.health())
    file = io.BytesIO(b"Yes.")
    file.name = "a.txt"
    yield "file", lambda: client.translate_file(file, "en", "fr").translated_file_url.endswith(".a.txt")
    yield "suggest", lambda: client.suggest("a", "b", "en", "fr")
    yield "unknown language", lambda: client.translate(TEXTS[0], "en", "tlh")

    async def many():
        async with AsyncLibreTranslate(base_url=url, api_key=key) as other:
            result = await asyncio.gather(*(other.translate(text, "en", "fr") for text in TEXTS))
        return [item.translated_text for item in result]

    yield "asynchronous", lambda: asyncio.run(many())


def deep_translator(url, key):
    from deep_translator import LibreTranslator

    client = LibreTranslator(source="en", target="fr", api_key=key, custom_url=f"{url}/")
    yield "translate", lambda: client.translate(TEXTS[0])
    yield "list", lambda: client.translate_batch(TEXTS)


def deepl(url, key):
    import deepl

    client = deepl.DeepLClient(key, server_url=url)
    pair = {"source_lang": "EN", "target_lang": "FR"}
    yield "list", lambda: [item.text for item in client.translate_text(TEXTS, **pair)]
    yield "detected", lambda: client.translate_text(TEXTS[1], target_lang="FR").detected_source_lang
    yield "billed", lambda: client.translate_text(TEXTS[0], **pair).billed_characters
    yield "xml", lambda: client.translate_text(TAGGED, tag_handling="xml", ignore_tags=["x"], **pair).text
    yield "formality", lambda: client.translate_text(TEXTS[0], formality="more", **pair).text
    yield "preferred formality", lambda: client.translate_text(TEXTS[0], formality="prefer_more", **pair).text
    yield "sources", lambda: [item.code for item in client.get_source_languages()]
    yield "targets", lambda: [[item.code, item.supports_formality] for item in client.get_target_languages()]
    yield "usage", lambda: client.get_usage().character.count > 0
    yield "glossary pairs", lambda: [[p.source_lang, p.target_lang] for p in client.get_glossary_languages()]
    glossary = client.create_glossary("mine", "EN", "FR", {"keys": "clefs"})
    yield "glossary entries", lambda: client.get_glossary_entries(glossary)
    yield "glossaries", lambda: [item.name for item in client.list_glossaries()]
    yield "with glossary", lambda: client.translate_text(TEXTS[0], glossary=glossary, **pair).text
    yield "glossary deleted", lambda: client.delete_glossary(glossary)
    yield "no glossary", lambda: client.get_glossary(glossary.glossary_id)
    yield "unknown language", lambda: client.translate_text(TEXTS[0], target_lang="DE")
    yield "wrong key", lambda: deepl.DeepLClient("wrong", server_url=url).get_usage()

    def document(name):
        file, out = io.BytesIO(TEXTS[0].encode()), io.BytesIO()
        file.name = name
        client.translate_document(file, out, target_lang="FR")
        return out.getvalue().decode()

    yield "document", lambda: document("a.txt")
    yield "unknown document", lambda: document("a.xyz")


def google(url, key):
    from google.api_core.client_options import ClientOptions
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import translate_v2

    options = ClientOptions(api_endpoint=url)
    client = translate_v2.Client(credentials=AnonymousCredentials(), client_options=options, target_language="fr")
    client._connection.extra_headers = {**(client._connection.extra_headers or {}), "X-Goog-Api-Key": key}
    yield "list", lambda: [row["translatedText"] for row in client.translate(TEXTS, source_language="en")]
    yield "detected", lambda: client.translate(TEXTS[1], format_="text")["detectedSourceLanguage"]
    yield "languages", lambda: [row["language"] for row in client.get_languages()]
    yield "detect", lambda: client.detect_language("Le petit chat dort dans la maison.")["language"]
    yield "unknown language", lambda: client.translate(TEXTS[0], source_language="en", target_language="tlh")


def openai(url, key):
    from openai import OpenAI

    client = OpenAI(base_url=f"{url}/v1", api_key=key)
    ask = {"model": "lm", "max_tokens": 6, "temperature": 0}
    messages = [{"role": "user", "content": "The"}]
    chat, text = client.chat.completions, client.completions
    yield "models", lambda: [model.id for model in client.models.list()]
    yield "model", lambda: client.models.retrieve("lm").id
    yield "chat", lambda: chat.create(messages=messages, **ask).choices[0].message.content
    yield "completions", lambda: [item.text for item in text.create(prompt=["The", "Where"], **ask).choices]

    def streamed():
        events = list(chat.create(messages=messages, stream=True, stream_options={"include_usage": True}, **ask))
        written = "".join(event.choices[0].delta.content or "" for event in events if event.choices)
        return [written, events[-1].usage.total_tokens > 0]

    yield "stream", streamed
    yield (
        "text stream",
        lambda: "".join(event.choices[0].text for event in text.create(prompt="The", stream=True, **ask)),
    )
    translated = [{"role": "user", "content": TEXTS[0]}]
    yield "translator", lambda: chat.create(model="en-fr", messages=translated).choices[0].message.content
    yield "base64", lambda: client.embeddings.create(model="mood", input=TEXTS[0]).data[0].embedding
    yield (
        "float",
        lambda: client.embeddings.create(model="mood", input=TEXTS[0], encoding_format="float").data[0].embedding,
    )
    yield "unknown model", lambda: client.models.retrieve("none")
    yield "wrong key", lambda: OpenAI(base_url=f"{url}/v1", api_key="wrong").models.list()
    yield "too many", lambda: chat.create(messages=messages, n=3, **ask)


def imported(url, key):
    """Vectors of an imported encoder, and marked spans of an imported tagger."""
    from huggingface_hub import InferenceClient
    from openai import OpenAI

    embeddings = OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0).embeddings

    def vectors(text, **options):
        return [row.embedding for row in embeddings.create(model="minilm", input=text, **options).data]

    ids = [7592, 2088]  # hello world
    yield "one", lambda: vectors(TEXTS[0])
    yield "list", lambda: vectors(TEXTS)
    yield "numbers", lambda: vectors(TEXTS, encoding_format="float")
    yield "cut", lambda: vectors(TEXTS, dimensions=64)
    yield "ids", lambda: vectors(ids)
    yield "lists of ids", lambda: vectors([ids, ids])
    yield "usage", lambda: embeddings.create(model="minilm", input=TEXTS).usage.model_dump()
    for name, text, options in (
        ("empty", "", {}), ("no texts", [], {}), ("unknown id", [[10**9]], {}), ("too many", ["a"] * 3000, {}),
        ("too long", "word " * 20_000, {}), ("many dimensions", "a", {"dimensions": 385}),
        ("no dimensions", "a", {"dimensions": 0}), ("format", "a", {"encoding_format": "int8"}),
    ):  # fmt: skip
        yield name, lambda text=text, options=options: vectors(text, **options)
    yield "unknown model", lambda: embeddings.create(model="none", input="a")
    features = InferenceClient(model=f"{url}/models/minilm/pipeline/feature-extraction", token=key)
    yield "features", lambda: features.feature_extraction(TEXTS[0]).tolist()
    marks = InferenceClient(model=f"{url}/models/names", token=key)
    yield "spans", lambda: [dict(span) for span in marks.token_classification("marie curie, in paris!")]


def huggingface(url, key):
    from huggingface_hub import InferenceClient

    def client(path):
        return InferenceClient(model=f"{url}{path}", token=key)

    yield "translation", lambda: client("/models/en-fr").translation(TEXTS[0]).translation_text
    yield "classification", lambda: client("/models/mood").text_classification(TEXTS[0], top_k=1)[0].label
    yield "TEI classification", lambda: client("/models/mood").text_classification(TEXTS[0])[0].label
    yield "generation", lambda: client("/models/lm").text_generation("The", max_new_tokens=6, temperature=0)
    path = "/models/mood/pipeline/feature-extraction"
    yield "features", lambda: client(path).feature_extraction(TEXTS[0], normalize=True)[0].tolist()
    chat = InferenceClient(base_url=f"{url}/v1", api_key=key)
    ask = {"messages": [{"role": "user", "content": "The"}], "model": "lm", "max_tokens": 6, "temperature": 0}
    yield "chat", lambda: chat.chat_completion(**ask).choices[0].message.content
    yield "unknown model", lambda: client("/models/none").translation("x")


def main(name, url, key):
    results = {}
    for call, run in globals()[name](url, key):
        try:
            results[call] = run()
        except Exception as error:
            results[call] = f"raised {type(error).__name__}"
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
