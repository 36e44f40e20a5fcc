"""Writes the templates in workflows/ from their graphs and one file of texts per language.

    python -m devhost.templates            write the files
    python -m devhost.templates --check    exit with 1 and name the files that are out of date

A template is the document that Dify's Studio exports. It names no knowledge, no model, no app and no secret, and leaves
out every setting that stands at its default, so that the cards on the canvas are short. In a chatflow three things are
left to choose: the knowledge, the LLM node's model and the judge model in the judge_settings node; the chatflows differ
in what scores the answer: a node for each metric, or one node for all. In the workflow for whole question tables
(template_batch.py) two are: the judge model and the app.
"""

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import yaml

from devhost import sample_table, template_notes
from devhost.flow_nodes import declared_tools, read_yaml
from devhost.template_batch import batch_edges, batch_nodes
from devhost.template_nodes import (
    CONTEXTS,
    MAIN_ROW,
    PROVIDER,
    QUESTION,
    Node,
    Place,
    answer_data,
    column,
    edge,
    judge_settings_node,
    knowledge_data,
    llm_data,
    mixed,
    node,
    tool_node,
    viewers_data,
    viewers_variable,
)
from devhost.template_notes import note

ROOT = Path(__file__).parents[1]
TEXTS = ROOT / "devhost" / "template_texts"
WORKFLOWS = ROOT / "workflows"
PUBLISHED = WORKFLOWS / "published.yaml"
LANGUAGES = ("ja", "en")
# What the oldest Dify writes that the plugin runs on, 1.12. A newer Dify imports it at once, with a notice that can be
# ignored (1.13 to 1.15 write 0.6.0, 1.16 writes 0.7.0); a version newer than its own makes Dify ask for confirmation.
DSL_VERSION = "0.5.0"
EVALUATOR_ROW_STEP = 140
# Studio's own.
ZOOM = 0.8


@dataclass(frozen=True)
class Template:
    """What the templates differ in besides their texts.

    Attributes:
        evaluators: the tool of each node that scores the answer, by the node's id.
    """

    evaluators: Mapping[str, str]

    @property
    def reads_documents(self) -> bool:
        """Whether a tool takes the documents that should be found, so that the sample table needs their column."""
        return any("documents" in inputs_of(tool) for tool in self.evaluators.values())


def inputs_of(tool: str) -> list[str]:
    """The names of a tool's parameters that Studio shows as input variables."""
    return [item["name"] for item in declared_tools(ROOT)[tool]["parameters"] if item["form"] == "llm"]


METRICS = ("answer_relevancy", "faithfulness", "context_recall", "context_precision")
TEMPLATES: Mapping[str, Template] = {
    "scored": Template({metric: metric for metric in METRICS}),
    "scorecard": Template({"evaluate": "evaluate_answer"}),
}

BATCH = "batch"

# What the tools' inputs are connected to, by parameter name.
INPUTS: Mapping[str, Mapping[str, Any]] = {
    "question": mixed(QUESTION),
    "answer": mixed("{{#llm.text#}}"),
    "reference": mixed("{{#lookup.reference#}}"),
    "documents": mixed("{{#lookup.documents#}}"),
    "contexts": {"type": "variable", "value": CONTEXTS},
}


class _ExportDumper(yaml.SafeDumper):
    """Writes a value that several nodes share in each of them, as an export does, instead of anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        return True


def read_texts(template: str, language: str) -> dict[str, Any]:
    """The texts of one template in one language ("ja" or "en"), a chatflow's sample table under the key `golden`."""
    texts: dict[str, Any] = yaml.safe_load((TEXTS / f"{language}.yaml").read_text(encoding="utf-8"))
    own = texts.pop("templates")[template]
    texts["descriptions"] |= own.pop("descriptions", {})
    if template == BATCH:
        return {**texts, **own}
    table = (TEXTS / f"golden_{language}.tsv").read_text(encoding="utf-8").splitlines()
    rows = [row.split("\t") for row in table]
    columns = 3 if TEMPLATES[template].reads_documents else 2
    golden = "\n".join("\t".join(row[:columns]) for row in rows)
    return {**texts, **own, "golden": golden}


@cache
def render(template: str, language: str) -> str:
    """One template as YAML text, in the layout that Dify's own export has."""
    texts = read_texts(template, language)
    content = batch_document(texts) if template == BATCH else chat_document(TEMPLATES[template], texts)
    return yaml.dump(content, Dumper=_ExportDumper, allow_unicode=True)


def chat_document(template: Template, texts: Mapping[str, Any]) -> dict[str, Any]:
    """A chatflow as the mapping that Dify imports."""
    canvas = nodes(template.evaluators, texts) + notes(texts)
    variable = viewers_variable(**texts["show_scores_to"])
    return document("advanced-chat", texts, canvas, edges(template.evaluators), [variable])


def batch_document(texts: Mapping[str, Any]) -> dict[str, Any]:
    """The workflow for question tables as the mapping that Dify imports."""
    return document("workflow", texts, batch_nodes(texts), batch_edges())


def document(
    mode: str,
    texts: Mapping[str, Any],
    canvas: list[Node],
    arrows: list[dict[str, Any]],
    environment: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """What all templates have in common, around their nodes and edges; `mode` is Dify's name for the kind of app."""
    top = min(item["position"]["y"] for item in canvas)
    return {
        "app": {
            "description": texts["description"],
            "icon": "📊",
            "icon_background": "#E4FBCC",
            "icon_type": "emoji",
            "mode": mode,
            "name": texts["name"],
            "use_icon_as_answer_icon": False,
        },
        "dependencies": dependencies(),
        "kind": "app",
        "version": DSL_VERSION,
        "workflow": {
            "conversation_variables": [],
            "environment_variables": list(environment),
            "features": features(texts),
            "graph": {
                "edges": arrows,
                "nodes": canvas,
                # Below Studio's own bar.
                "viewport": {"x": 20, "y": round(80 - ZOOM * top), "zoom": ZOOM},
            },
            "rag_pipeline_variables": [],
        },
    }


def dependencies(published: Path = PUBLISHED) -> list[dict[str, Any]]:
    """The plugin as Dify's export names it, once it is in the marketplace; until then an import works without.

    Raises:
        ValueError: the identifier is not one of this plugin's.
    """
    field = "marketplace_plugin_unique_identifier"
    identifier = read_yaml(published)[field]
    if not identifier:
        return []
    plugin = PROVIDER.rpartition("/")[0]
    if not re.fullmatch(rf"{plugin}:\d+\.\d+\.\d+@[0-9a-f]{{64}}", identifier):
        raise ValueError(f"{published.name}: {identifier} is not {plugin}:version@checksum")
    return [{"current_identifier": None, "type": "marketplace", "value": {field: identifier, "version": None}}]


def features(texts: Mapping[str, Any]) -> dict[str, Any]:
    """The app's features: in a chat an opening statement with two questions to click, and the sources of replies."""
    return {
        "file_upload": {"enabled": False},
        "opening_statement": texts.get("opening_statement", ""),
        "retriever_resource": {"enabled": True},
        "sensitive_word_avoidance": {"enabled": False},
        "speech_to_text": {"enabled": False},
        "suggested_questions": texts["suggested_questions"] if "opening_statement" in texts else [],
        "suggested_questions_after_answer": {"enabled": False},
        "text_to_speech": {"enabled": False, "language": "", "voice": ""},
    }


def nodes(evaluators: Mapping[str, str], texts: Mapping[str, Any]) -> list[Node]:
    """The executable nodes, in the order in which they run."""
    titles = texts["titles"]
    built = [
        node("start", Place(column(0), MAIN_ROW, 54), titles, {"type": "start", "variables": []}),
        node("knowledge", Place(column(1), MAIN_ROW, 54), titles, knowledge_data()),
        node("llm", Place(column(2), MAIN_ROW, 90), titles, llm_data(texts["system_prompt"])),
        node("reply", Place(column(3), MAIN_ROW, 106), titles, answer_data("{{#llm.text#}}")),
        judge_settings_node((column(4), MAIN_ROW), texts),
        tool_node(
            "lookup",
            "reference_lookup",
            (column(5), MAIN_ROW),
            texts,
            inputs={"question": mixed(QUESTION), "golden": mixed(texts["golden"])},
        ),
    ]
    top = MAIN_ROW - EVALUATOR_ROW_STEP * (len(evaluators) - 1) // 2
    for row, (node_id, tool) in enumerate(evaluators.items()):
        inputs = {name: INPUTS[name] for name in inputs_of(tool)}
        corner = (column(6), top + EVALUATOR_ROW_STEP * row)
        built.append(tool_node(node_id, tool, corner, texts, inputs))
    everyone = texts["show_scores_to"]["everyone"]
    built.append(node("viewers", Place(column(7), MAIN_ROW, 204), titles, viewers_data(everyone)))
    # Only the tools' `text` is shown: in a streamed chat Dify loses a tool's other outputs at random. The empty lines
    # keep the rule from making a heading of the reply's last line.
    scores = "\n\n---\n\n" + "\n".join(f"{{{{#{node_id}.text#}}}}" for node_id in evaluators)
    built.append(node("scores", Place(column(8), MAIN_ROW, 72 + 27 * len(evaluators)), titles, answer_data(scores)))
    return built


def edges(evaluators: Mapping[str, str]) -> list[dict[str, Any]]:
    """A chain up to the reference lookup, then what scores the answer side by side, then the scores for who may see."""
    pairs = list(pairwise(["start", "knowledge", "llm", "reply", "judge_settings", "lookup"]))
    pairs += [("lookup", node_id) for node_id in evaluators] + [(node_id, "viewers") for node_id in evaluators]
    pairs.append(("viewers", "scores"))
    return [edge(source, target) for source, target in pairs]


def notes(texts: Mapping[str, Any]) -> list[Node]:
    """The notes: above the chain what to do after importing and who sees the scores, below it why memory is off."""
    y = MAIN_ROW - 40 - max(template_notes.height(texts["after_import"]), template_notes.height(texts["viewers"]))
    beside = column(0) + template_notes.WIDTH + 40
    return [
        note("note_after_import", (column(0), y), texts["after_import"], theme="blue"),
        note("note_viewers", (beside, y), texts["viewers"]),
        note("note_memory", (column(1), MAIN_ROW + 180), texts["why_memory_is_off"], width=400),
    ]


def files() -> dict[str, str]:
    """The content of every template by its file's name."""
    names = {pair: read_texts(*pair)["file"] for pair in product([*TEMPLATES, BATCH], LANGUAGES)}
    return {name: render(*pair) for pair, name in names.items()}


def stale(folder: Path = WORKFLOWS) -> list[str]:
    """The files in `folder` that are missing or differ from what the generator writes."""
    return [name for name, content in _contents().items() if not sample_table.is_same(folder / name, content)]


def write(folder: Path = WORKFLOWS) -> list[Path]:
    """Write every template and the sample question files; returns the paths."""
    folder.mkdir(exist_ok=True)
    paths = []
    for name, content in _contents().items():
        paths.append(folder / name)
        if not sample_table.is_same(paths[-1], content):
            paths[-1].write_bytes(content)
    return paths


def _contents() -> dict[str, bytes]:
    return {name: content.encode() for name, content in files().items()} | sample_table.sample_files()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the templates in workflows/.")
    parser.add_argument("--check", action="store_true", help="only say which files are out of date")
    if parser.parse_args(arguments).check:
        names = stale()
        for name in names:
            print(f"{name} is out of date: run python -m devhost.templates")
        return 1 if names else 0
    for path in write():
        print(f"wrote {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
