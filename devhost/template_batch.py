"""The workflow template that evaluates an app over a whole question table: file or text in, summary and report out."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from devhost import template_notes
from devhost.template_nodes import MAIN_ROW, Node, Place, column, edge, judge_settings_node, mixed, node, tool_node
from devhost.template_notes import note

FILE_ENDINGS = (".csv", ".tsv", ".xlsx", ".json", ".jsonl")
MOST_FILES = 5
TABLE_CHARACTERS = 200_000
NAME_CHARACTERS = 60
CHAIN = ("start", "judge_settings", "batch", "output")


def batch_nodes(texts: Mapping[str, Any]) -> list[Node]:
    """The executable nodes in the order in which they run, and the note on the canvas."""
    titles = texts["titles"]
    inputs = {
        "golden": mixed("{{#start.table#}}"),
        "golden_file": {"type": "variable", "value": ["start", "files"]},
        "table_name": mixed("{{#start.table_name#}}"),
        "run_name": mixed("{{#start.run_name#}}"),
    }
    outputs = [("text", "string"), ("files", "array[file]")]
    given = [
        {"value_selector": ["batch", name], "value_type": value_type, "variable": name} for name, value_type in outputs
    ]
    start = {"type": "start", "variables": start_variables(texts["inputs"])}
    above = MAIN_ROW - 40 - template_notes.height(texts["after_import"])
    corners = {node_id: (column(index), MAIN_ROW) for index, node_id in enumerate(CHAIN)}
    return [
        node("start", Place(*corners["start"], 54 + 26 * 4), titles, start),
        judge_settings_node(corners["judge_settings"], texts),
        tool_node("batch", "evaluate_app", corners["batch"], texts, inputs),
        node("output", Place(*corners["output"], 62 + 26 * 2), titles, {"type": "end", "outputs": given}),
        note("note_after_import", (column(0), above), texts["after_import"], theme="blue"),
    ]


def batch_edges() -> list[dict[str, Any]]:
    """One chain."""
    return [edge(source, target) for source, target in pairwise(CHAIN)]


def start_variables(labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """The inputs, as Studio exports them; all optional, as a table may come as a file or as text."""
    common = {"default": "", "hint": "", "options": [], "placeholder": "", "required": False}
    files = {
        # "custom" alone takes its endings from the list; the endings of "document" lack three of them.
        "allowed_file_extensions": list(FILE_ENDINGS),
        "allowed_file_types": ["custom"],
        "allowed_file_upload_methods": ["local_file", "remote_url"],
        "max_length": MOST_FILES,
        "type": "file-list",
    }
    fields: dict[str, dict[str, Any]] = {
        "files": files,
        "table": {"max_length": TABLE_CHARACTERS, "type": "paragraph"},
        "table_name": {"max_length": NAME_CHARACTERS, "type": "text-input"},
        "run_name": {"max_length": NAME_CHARACTERS, "type": "text-input"},
    }
    return [{**common, **own, "label": labels[name], "variable": name} for name, own in fields.items()]
