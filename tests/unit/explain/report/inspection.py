"""What a browser would make of a page: its elements, its attributes, its text."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Seen(HTMLParser):
    """Elements in order, each with its attributes, and all text outside of style."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def seen(page: str) -> Seen:
    """`page` as parsed; every element is closed, nothing is run and nothing is fetched."""
    result = Seen()
    result.feed(page)
    result.close()
    assert result.open == []
    assert not result.named("script")
    handlers = [name for _, attributes in result.elements for name in attributes if name.startswith("on")]
    assert handlers == []
    fetched = {"img", "link", "object", "embed", "audio", "video", "source", "base", "form", "a", "image", "use"}
    assert not fetched & {name for name, _ in result.elements}
    assert all("src" not in attributes and "href" not in attributes for _, attributes in result.elements)
    return result
