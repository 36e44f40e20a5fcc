"""Writes the chatflow templates in workflows/ from one graph and one file of texts per language.

    python -m devhost.templates            write the files
    python -m devhost.templates --check    exit with 1 and name the files that are out of date

A template is the document that Dify's Studio exports: DSL 0.3.1, which every Dify from 1.7 on imports. It names no
knowledge, no model and no secret, and three things are left to choose: the knowledge, the LLM node's model and the
judge model in the judge_settings node.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

TEXTS = Path(__file__).parent / "template_texts"
WORKFLOWS = Path(__file__).parents[1] / "workflows"
LANGUAGES = ("ja", "en")
PROVIDER = "rag-evaluator-team/rag_evaluator/rag_evaluator"
DSL_VERSION = "0.3.1"
METRICS = ("answer_relevancy", "faithfulness", "context_recall", "context_precision")

# Studio's own sizes, in canvas pixels: a node is 244 wide, and columns 300 apart leave room for the arrows.
NODE_WIDTH = 244
FIRST_COLUMN = 80
COLUMN_STEP = 300
MAIN_ROW = 282
METRIC_ROW_STEP = 220

QUESTION = "{{#sys.query#}}"
ANSWER = "{{#llm.text#}}"
REFERENCE = "{{#lookup.reference#}}"
CONTEXTS = ["knowledge", "result"]

type Node = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """A node's top left corner and height on the canvas, in pixels."""

    x: int
    y: int
    height: int


def column(index: int) -> int:
    """The x of a column, counted from 0."""
    return FIRST_COLUMN + COLUMN_STEP * index


def read_texts(language: str) -> dict[str, Any]:
    """The texts of one language ("ja" or "en"), with the sample table under the key `golden`."""
    texts: dict[str, Any] = yaml.safe_load((TEXTS / f"{language}.yaml").read_text(encoding="utf-8"))
    texts["golden"] = (TEXTS / f"golden_{language}.tsv").read_text(encoding="utf-8").rstrip("\n")
    return texts


def render(language: str) -> str:
    """One template as YAML text, in the layout that Dify's own export has."""
    return yaml.dump(document(read_texts(language)), allow_unicode=True)


def document(texts: dict[str, Any]) -> dict[str, Any]:
    """One template as the mapping that Dify imports."""
    return {
        "app": {
            "description": texts["description"],
            "icon": "📊",
            "icon_background": "#E4FBCC",
            "icon_type": "emoji",
            "mode": "advanced-chat",
            "name": texts["name"],
            "use_icon_as_answer_icon": False,
        },
        # The checksum of a locally installed package is not known here, and an import without it works.
        "dependencies": [],
        "kind": "app",
        "version": DSL_VERSION,
        "workflow": {
            "conversation_variables": [],
            "environment_variables": [],
            "features": features(texts),
            "graph": {
                "edges": edges(),
                "nodes": nodes(texts) + notes(texts),
                "viewport": {"x": 20, "y": 160, "zoom": 0.55},
            },
            "rag_pipeline_variables": [],
        },
    }


def features(texts: dict[str, Any]) -> dict[str, Any]:
    """The chat's features: an opening statement with two questions to click, and the sources under the reply."""
    return {
        "file_upload": {"enabled": False},
        "opening_statement": texts["opening_statement"],
        "retriever_resource": {"enabled": True},
        "sensitive_word_avoidance": {"enabled": False},
        "speech_to_text": {"enabled": False},
        "suggested_questions": texts["suggested_questions"],
        "suggested_questions_after_answer": {"enabled": False},
        "text_to_speech": {"enabled": False, "language": "", "voice": ""},
    }


def nodes(texts: dict[str, Any]) -> list[Node]:
    """The executable nodes, in the order in which they run."""
    titles = texts["titles"]
    built = [
        node("start", Place(column(0), MAIN_ROW, 54), titles, {"type": "start", "variables": []}),
        node("knowledge", Place(column(1), MAIN_ROW, 54), titles, knowledge_data()),
        node("llm", Place(column(2), MAIN_ROW, 90), titles, llm_data(texts["system_prompt"])),
        node("reply", Place(column(3), MAIN_ROW, 106), titles, answer_data(ANSWER)),
        tool_node(
            "judge_settings",
            "judge_settings",
            Place(column(4), MAIN_ROW, 116),
            texts,
            inputs={},
            # This tool reads no text from which "auto" could tell the language.
            settings={"workspace_default": False, "language": texts["language"]},
        ),
        tool_node(
            "lookup",
            "reference_lookup",
            Place(column(5), MAIN_ROW, 90),
            texts,
            inputs={"question": mixed(QUESTION), "golden": mixed(texts["golden"])},
            settings={"language": "auto"},
        ),
    ]
    top = MAIN_ROW - METRIC_ROW_STEP * (len(METRICS) - 1) // 2
    for row, metric in enumerate(METRICS):
        place = Place(column(6), top + METRIC_ROW_STEP * row, 142)
        built.append(tool_node(metric, metric, place, texts, *metric_parameters(metric)))
    # Only the tools' `text` is shown: in a streamed chat Dify loses a tool's other outputs at random.
    scores = "\n\n---\n\n" + "\n".join(f"{{{{#{metric}.text#}}}}" for metric in METRICS)
    built.append(node("scores", Place(column(7), MAIN_ROW, 180), titles, answer_data(scores)))
    return built


def metric_parameters(metric: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The inputs and the settings of one metric's node."""
    settings: dict[str, Any] = {"language": "auto", "votes": "1"}
    if metric == "answer_relevancy":
        return {"question": mixed(QUESTION), "answer": mixed(ANSWER)}, settings | {"question_count": 3}
    judged = {"answer": mixed(ANSWER)} if metric == "faithfulness" else {"reference": mixed(REFERENCE)}
    inputs = {"question": mixed(QUESTION)} | judged | {"contexts": {"type": "variable", "value": CONTEXTS}}
    return inputs, settings | {"depth": "standard"}


def node(node_id: str, place: Place, titles: dict[str, str], data: dict[str, Any]) -> Node:
    """One node as Studio exports it."""
    return {
        "data": {"desc": "", "selected": False, "title": titles[node_id], **data},
        "height": place.height,
        "id": node_id,
        "position": {"x": place.x, "y": place.y},
        "positionAbsolute": {"x": place.x, "y": place.y},
        "sourcePosition": "right",
        "targetPosition": "left",
        "type": "custom",
        "width": NODE_WIDTH,
        "zIndex": 0,
    }


def knowledge_data() -> dict[str, Any]:
    """The Knowledge Retrieval node without a knowledge base.

    No `reranking_mode`: with one, Studio's checklist asks for a rerank model or weights; without, it fills in the
    weights when the user chooses the knowledge.
    """
    return {
        "dataset_ids": [],
        "metadata_filtering_mode": "disabled",
        "multiple_retrieval_config": {"reranking_enable": False, "score_threshold": None, "top_k": 4},
        "query_attachment_selector": [],
        "query_variable_selector": ["sys", "query"],
        "retrieval_mode": "multiple",
        "type": "knowledge-retrieval",
    }


def llm_data(system_prompt: str) -> dict[str, Any]:
    """The LLM node without a model and without memory."""
    return {
        "context": {"enabled": True, "variable_selector": CONTEXTS},
        "model": {"completion_params": {"temperature": 0}, "mode": "chat", "name": "", "provider": ""},
        "prompt_config": {"jinja2_variables": []},
        "prompt_template": [
            {"id": "system", "role": "system", "text": system_prompt},
            {"id": "user", "role": "user", "text": QUESTION},
        ],
        "structured_output_enabled": False,
        "type": "llm",
        "variables": [],
        "vision": {"enabled": False},
    }


def answer_data(text: str) -> dict[str, Any]:
    """An Answer node that shows `text`."""
    return {"answer": text, "type": "answer", "variables": []}


def mixed(text: str) -> dict[str, Any]:
    """A tool's text field that may hold variables."""
    return {"type": "mixed", "value": text}


def tool_node(
    node_id: str,
    tool: str,
    place: Place,
    texts: dict[str, Any],
    inputs: dict[str, Any],
    settings: dict[str, Any],
) -> Node:
    """A node of one of this plugin's tools; `inputs` are {type, value} pairs, `settings` plain values."""
    data = {
        "is_team_authorization": True,
        "plugin_unique_identifier": None,
        "provider_id": PROVIDER,
        "provider_name": PROVIDER,
        "provider_type": "builtin",
        "tool_configurations": {name: {"type": "constant", "value": value} for name, value in settings.items()},
        "tool_description": texts["descriptions"][node_id],
        "tool_label": texts["titles"][node_id],
        "tool_name": tool,
        "tool_node_version": "2",
        "tool_parameters": inputs,
        "type": "tool",
    }
    return node(node_id, place, texts["titles"], data)


def edges() -> list[dict[str, Any]]:
    """A chain up to the reference lookup, then the four metrics side by side, then the scores."""
    chain = ["start", "knowledge", "llm", "reply", "judge_settings", "lookup"]
    pairs = list(pairwise(chain))
    pairs += [("lookup", metric) for metric in METRICS] + [(metric, "scores") for metric in METRICS]
    return [edge(source, target) for source, target in pairs]


NODE_TYPES = {
    "start": "start",
    "knowledge": "knowledge-retrieval",
    "llm": "llm",
    "reply": "answer",
    "scores": "answer",
}


def edge(source: str, target: str) -> dict[str, Any]:
    """One connection as Studio exports it."""
    return {
        "data": {
            "isInIteration": False,
            "isInLoop": False,
            "sourceType": NODE_TYPES.get(source, "tool"),
            "targetType": NODE_TYPES.get(target, "tool"),
        },
        "id": f"{source}-source-{target}-target",
        "source": source,
        "sourceHandle": "source",
        "target": target,
        "targetHandle": "target",
        "type": "custom",
        "zIndex": 0,
    }


def notes(texts: dict[str, Any]) -> list[Node]:
    """The two notes on the canvas: what to do after importing (above the chain), why memory is off (under the LLM)."""
    written = texts["notes"]
    return [
        note("note_after_import", Place(column(0), MAIN_ROW - 300, 260), 640, "blue", written["after_import"]),
        note("note_memory", Place(column(2), MAIN_ROW + 180, 150), 360, "yellow", written["memory"]),
    ]


def note(node_id: str, place: Place, width: int, theme: str, text: dict[str, Any]) -> Node:
    """One note as Studio exports it; its text is the state of a Lexical editor, as JSON."""
    return {
        "data": {
            "author": "RAG Evaluator",
            "desc": "",
            "height": place.height,
            "selected": False,
            "showAuthor": False,
            "text": json.dumps(lexical(text["title"], text["lines"]), ensure_ascii=False, separators=(",", ":")),
            "theme": theme,
            "title": "",
            "type": "",
            "width": width,
        },
        "height": place.height,
        "id": node_id,
        "position": {"x": place.x, "y": place.y},
        "positionAbsolute": {"x": place.x, "y": place.y},
        "sourcePosition": "right",
        "targetPosition": "left",
        "type": "custom-note",
        "width": width,
        "zIndex": 0,
    }


def lexical(title: str, lines: Sequence[str]) -> dict[str, Any]:
    """A Lexical document: the title in bold, then one paragraph a line."""
    bold = 1
    paragraphs = [paragraph(title, bold), *(paragraph(line, 0) for line in lines)]
    return {"root": {**LEXICAL_BLOCK, "children": paragraphs, "type": "root"}}


LEXICAL_BLOCK = {"direction": "ltr", "format": "", "indent": 0, "version": 1}


def paragraph(text: str, text_format: int) -> dict[str, Any]:
    """One paragraph of one text run; `text_format` is Lexical's bit field (1 is bold)."""
    run = {"detail": 0, "format": text_format, "mode": "normal", "style": "", "text": text}
    run |= {"type": "text", "version": 1}
    return {**LEXICAL_BLOCK, "children": [run], "textFormat": text_format, "textStyle": "", "type": "paragraph"}


def stale(folder: Path = WORKFLOWS) -> list[str]:
    """The template files in `folder` that are missing or differ from what the generator writes."""
    names = []
    for language in LANGUAGES:
        path = folder / read_texts(language)["file"]
        if not path.exists() or path.read_text(encoding="utf-8") != render(language):
            names.append(path.name)
    return names


def write(folder: Path = WORKFLOWS) -> list[Path]:
    """Write every template; returns the paths."""
    folder.mkdir(exist_ok=True)
    paths = []
    for language in LANGUAGES:
        path = folder / read_texts(language)["file"]
        path.write_text(render(language), encoding="utf-8", newline="\n")
        paths.append(path)
    return paths


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the chatflow templates in workflows/.")
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
