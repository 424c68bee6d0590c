"""A macro of LibreOffice Writer: translate the selected text, else every paragraph, by `dikkat serve`."""

import json
from typing import Any
from urllib.request import Request, urlopen

SERVER = "http://127.0.0.1:5000/translate"
XSCRIPTCONTEXT: Any  # LibreOffice gives it to every macro


def translate(*_: object) -> None:
    document = XSCRIPTCONTEXT.getDocument()
    selected = document.CurrentController.Selection.getByIndex(0)
    texts = [selected] if selected.String else [part for part in document.Text if hasattr(part, "String")]
    asked = json.dumps({"q": [text.String for text in texts], "source": "en", "target": "fr"}).encode()
    with urlopen(Request(SERVER, asked, {"Content-Type": "application/json"})) as answer:
        for text, translation in zip(texts, json.load(answer)["translatedText"], strict=True):
            text.String = translation
