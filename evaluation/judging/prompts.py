"""The prompts: data files prompts/<name>.<language>.md, each verbatim a system message.

Their first line, `rag-evaluator <name> v<version> <language>`, shows in the workspace's logs what a call was for.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from evaluation.languages import Language

_FOLDER = Path(__file__).parent / "prompts"
# Those that write questions for a table.
DRAFTING_PREFIX = "draft."


@dataclass(frozen=True)
class Prompt:
    """A prompt in one language. `system` is the whole system message, `version` the number in its first line."""

    name: str
    version: int
    system: str

    @property
    def form(self) -> str:
        """The two last lines, which show the reply's form; a judge that repeats them has not judged yet."""
        return "\n".join(self.system.splitlines()[-2:])


@cache
def load_prompt(name: str, language: Language) -> Prompt:
    """The prompt of that name.

    Raises:
        ValueError: the file's first line is not the one that its name calls for.
    """
    system = (_FOLDER / f"{name}.{language}.md").read_text(encoding="utf-8").strip()
    words = system.splitlines()[0].split(" ")
    if [words[0], words[1], words[3]] != ["rag-evaluator", name, language]:
        raise ValueError(f"{name}.{language}.md begins with another prompt's line")
    return Prompt(name, int(words[2].removeprefix("v")), system)


def prompt_versions(language: Language) -> dict[str, str]:
    """The version of every prompt that scores: scores made with other prompts are other scores."""
    names = sorted(path.name.removesuffix(f".{language}.md") for path in _FOLDER.glob(f"*.{language}.md"))
    return {name: str(load_prompt(name, language).version) for name in names if not name.startswith(DRAFTING_PREFIX)}


def user_message(data: Mapping[str, object]) -> str:
    """The data to judge as JSON between two markers.

    The marker is new for every call and does not occur in the data, so that no text in it can pretend to end it.
    Characters stay as they are: escapes cost several times the tokens and small judges misread them.
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    while (marker := f"data-{secrets.token_hex(4)}") in text:
        pass
    return f"<{marker}>\n{text}\n</{marker}>"
