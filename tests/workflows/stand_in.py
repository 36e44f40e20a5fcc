"""A plugin of the tests' own process: its tools answer as a test says, in the order that it says."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from devhost.daemon import Message


def text(content: str) -> Message:
    return {"type": "text", "message": {"text": content}, "meta": None}


def variable(name: str, value: Any) -> Message:
    return {"type": "variable", "message": {"variable_name": name, "variable_value": value, "stream": False}}


@dataclass
class StandIn:
    """Tools by name; each is a function from its parameters to messages.

    Attributes:
        folder: holds the declarations that `declare` wrote, or a plugin's own.
        tools: what each tool answers; "- <name>" when it is not in here.
        calls: tool, parameters and the other arguments of every call.
        finished: the tools that have ended, in order, since the last `finish_in`.
    """

    folder: Path
    tools: dict[str, Callable[[Mapping[str, Any]], Iterable[Message]]] = field(default_factory=dict)
    calls: list[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.finish_in(())

    def finish_in(self, order: Sequence[str]) -> None:
        """From now on these tools end in this order, each after the one before it."""
        self._order = list(order)
        self._ended = {name: threading.Event() for name in order}
        self.finished.clear()

    def invoke_tool(self, tool: str, parameters: Mapping[str, Any], **arguments: Any) -> Iterator[Message]:
        self.calls.append((tool, parameters, arguments))
        answer = self.tools.get(tool, lambda _: [text(f"- {tool}")])
        if tool not in self._ended:
            yield from answer(parameters)
            return
        place = self._order.index(tool)
        if place:
            assert self._ended[self._order[place - 1]].wait(10), f"{tool} waited in vain"
        yield from answer(parameters)
        self.finished.append(tool)
        self._ended[tool].set()

    def parameters_of(self, tool: str) -> Mapping[str, Any]:
        """The parameters of the only call of a tool."""
        [parameters] = [parameters for name, parameters, _ in self.calls if name == tool]
        return parameters


def declare(folder: Path, tool: str, types: Mapping[str, str]) -> Path:
    """Write a plugin's declarations with one tool: its `form` parameters are the selectors and those named so."""
    forms = {"economy", "language", "threshold", "count"}
    parameters = [
        {"name": name, "type": kind, "form": "form" if name in forms or kind.endswith("selector") else "llm"}
        for name, kind in types.items()
    ]
    files: dict[str, Any] = {
        "manifest.yaml": {"plugins": {"tools": ["provider.yaml"]}},
        "provider.yaml": {"tools": ["tool.yaml"]},
        "tool.yaml": {"identity": {"name": tool}, "parameters": parameters},
    }
    for name, content in files.items():
        (folder / name).write_text(yaml.safe_dump(content), encoding="utf-8")
    return folder
