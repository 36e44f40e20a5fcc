"""A page taken apart for tests."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

# Elements without an end.
_VOID = {"meta", "link", "br", "hr", "img", "input"}
# Elements within a word or line: the text goes on through them.
_INLINE = {"b", "bdi"}


@dataclass
class Element:
    """A start tag with its attributes, and the tags that it stands in."""

    tag: str
    attributes: dict[str, str | None]
    path: tuple[str, ...]
    text: str = ""


@dataclass
class Page(HTMLParser):
    """The elements and the visible text of an HTML page.

    Raises:
        ValueError: a tag ends that is not the one that began last.
    """

    source: str
    elements: list[Element] = field(default_factory=list)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[Element] = []
        self.feed(self.source)
        self.close()
        if self._open:
            raise ValueError(f"not closed: {[element.tag for element in self._open]}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._part(tag)
        element = Element(tag, dict(attrs), tuple(outer.tag for outer in self._open))
        self.elements.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, dict(attrs), tuple(outer.tag for outer in self._open)))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1].tag != tag:
            raise ValueError(f"</{tag}> at {self.getpos()}")
        self._part(tag)
        self._open.pop()

    def _part(self, tag: str) -> None:
        """Texts of elements beside one another are words apart."""
        if tag not in _INLINE:
            self.handle_data(" ")

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data
        if not any(element.tag in {"style", "title", "head"} for element in self._open):
            self.text += data

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """The elements with that tag; `class_` is one of its classes, other attributes are equal."""
        wanted = attributes.pop("class_", None)
        return [
            element
            for element in self.elements
            if element.tag == tag
            and (wanted is None or wanted in (element.attributes.get("class") or "").split())
            and all(element.attributes.get(name) == value for name, value in attributes.items())
        ]

    def section(self, name: str) -> str:
        """The text of the section with that id, on one line; "" when there is none."""
        return " ".join(" ".join(element.text.split()) for element in self.all("section", id=name))
