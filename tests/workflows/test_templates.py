"""The chatflow templates as documents: what Studio, an importer and a newcomer get."""

import copy
import json
import re
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from devhost import templates
from devhost.chatflow import choose
from devhost.flow_nodes import declared_tools
from devhost.knowledge import KnowledgeBase
from evaluation.golden.files import read_table_file
from evaluation.golden.table import Row, read_table
from tests.workflows.dsl import (
    SYSTEM_VARIABLES,
    TOOL_OUTPUTS,
    ancestors,
    checklist,
    data_by_id,
    graph_of,
    outputs_of,
    references,
)

ROOT = Path(__file__).parents[2]
EXPORT = Path(__file__).parent / "data" / "newcomer_skeleton.yml"
PAIRS = (
    ("rag_chat_scored.yml", "rag_chat_scored_en.yml"),
    ("rag_chat_scorecard.yml", "rag_chat_scorecard_en.yml"),
)
FILES = [name for pair in PAIRS for name in pair]
SAMPLES = ["sample_questions.csv", "sample_questions.xlsx", "sample_questions_en.csv", "sample_questions_en.xlsx"]
BATCH = ["batch_evaluation.yml", "batch_evaluation_en.yml"]
TOOLS = declared_tools(ROOT)
LABELS = {"ja": "ja_JP", "en": "en_US"}
METRICS = ["answer_relevancy", "faithfulness", "context_recall", "context_precision"]

type Document = dict[str, Any]


def language_of(name: str) -> str:
    return "en" if name.endswith("_en.yml") else "ja"


def evaluators_of(name: str) -> list[str]:
    """The ids of the nodes that score the answer."""
    return ["evaluate"] if "scorecard" in name else METRICS


@cache
def parsed(name: str) -> Document:
    document: Document = yaml.safe_load((ROOT / "workflows" / name).read_text(encoding="utf-8"))
    return document


def read(name: str) -> Document:
    return copy.deepcopy(parsed(name))


@pytest.fixture(params=FILES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def document(name: str) -> Document:
    return read(name)


def test_the_files_are_what_the_generator_writes() -> None:
    assert templates.stale() == []


def test_the_generator_names_missing_and_changed_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert templates.stale(tmp_path) == FILES + BATCH + SAMPLES
    paths = templates.write(tmp_path)
    assert [path.name for path in paths] == FILES + BATCH + SAMPLES
    assert templates.stale(tmp_path) == []
    changed, removed = paths[1:3]
    changed.write_text(changed.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    removed.unlink()
    assert templates.stale(tmp_path) == [changed.name, removed.name]
    assert templates.main(["--check"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_file_is_the_sample_table_of_the_templates(name: str) -> None:
    table = read_table_file(name, (templates.WORKFLOWS / name).read_bytes())
    sample = read_table(
        (templates.TEXTS / f"golden_{'en' if '_en.' in name else 'ja'}.tsv").read_text(encoding="utf-8")
    )
    assert (table.rows, table.unreadable, table.notes) == (sample.rows, 0, ())
    assert all(row.reference and row.documents for row in table.rows)


def test_a_sample_file_that_was_changed_is_told(tmp_path: Path) -> None:
    templates.write(tmp_path)
    for name in SAMPLES[:2]:
        (tmp_path / name).write_bytes((templates.WORKFLOWS / name.replace("questions", "questions_en")).read_bytes())
    assert templates.stale(tmp_path) == SAMPLES[:2]


def test_the_checklist_here_is_the_one_that_studio_showed_for_an_exported_chatflow() -> None:
    exported = yaml.safe_load(EXPORT.read_text(encoding="utf-8"))
    assert checklist(exported, TOOLS) == [("kr", "knowledge"), ("llm", "model"), ("js", "model")]


def test_the_checklist_names_the_knowledge_the_chat_model_and_the_judge_model_and_nothing_else(
    document: Document,
) -> None:
    assert checklist(document, TOOLS) == [("knowledge", "knowledge"), ("llm", "model"), ("judge_settings", "model")]


def test_the_checklist_is_empty_once_the_three_are_chosen(document: Document, tmp_path: Path) -> None:
    knowledge = KnowledgeBase(tmp_path)
    assert checklist(choose(document, knowledge=[knowledge], chat_model="a", judge_model="b"), TOOLS) == []


def test_the_layout_of_the_text_is_that_of_an_export(name: str) -> None:
    text = (ROOT / "workflows" / name).read_text(encoding="utf-8")
    assert yaml.dump(yaml.safe_load(text), allow_unicode=True) == text
    assert re.findall(r": [&*]id\d+$", text, re.MULTILINE) == []
    exported = EXPORT.read_text(encoding="utf-8")
    assert yaml.dump(yaml.safe_load(exported), allow_unicode=True) == exported


def test_nodes_and_edges_have_the_fields_of_an_export(document: Document) -> None:
    exported = shape(yaml.safe_load(EXPORT.read_text(encoding="utf-8")))
    # The export has no such node; these are the fields of one in Dify's own sources.
    exported["data"]["if-else"] = {frozenset({"cases", "desc", "selected", "title", "type"})}
    assert shape(document) == exported


def shape(document: Document) -> dict[str, Any]:
    """The names of all fields: of the document, the workflow, an edge, and a node of each type."""
    nodes = [node for node in graph_of(document)["nodes"] if node["type"] == "custom"]
    return {
        "document": set(document),
        "app": set(document["app"]),
        "workflow": set(document["workflow"]),
        "graph": set(graph_of(document)),
        "edges": {frozenset(edge) | frozenset(edge["data"]) for edge in graph_of(document)["edges"]},
        "nodes": {frozenset(node) for node in nodes},
        "data": {data_type: fields_of(nodes, data_type) for data_type in {node["data"]["type"] for node in nodes}},
    }


def fields_of(nodes: list[dict[str, Any]], data_type: str) -> set[frozenset[str]]:
    return {frozenset(node["data"]) for node in nodes if node["data"]["type"] == data_type}


def test_ids_are_unique(document: Document) -> None:
    graph = graph_of(document)
    for things in (graph["nodes"], graph["edges"]):
        ids = [thing["id"] for thing in things]
        assert len(ids) == len(set(ids))


def test_every_edge_joins_two_nodes_and_names_their_types(document: Document) -> None:
    nodes = data_by_id(document)
    for edge in graph_of(document)["edges"]:
        source, target = edge["source"], edge["target"]
        assert edge["sourceHandle"] == ("true" if nodes[source]["type"] == "if-else" else "source")
        assert edge["id"] == f"{source}-{edge['sourceHandle']}-{target}-target"
        assert edge["data"]["sourceType"] == nodes[source]["type"]
        assert edge["data"]["targetType"] == nodes[target]["type"]


def test_what_scores_the_answer_stands_between_the_lookup_and_who_may_see_the_scores(
    name: str, document: Document
) -> None:
    edges = {(edge["source"], edge["target"]) for edge in graph_of(document)["edges"]}
    expected = set(pairwise(["start", "knowledge", "llm", "reply", "judge_settings", "lookup"]))
    for node_id in evaluators_of(name):
        expected |= {("lookup", node_id), (node_id, "viewers")}
    assert edges == expected | {("viewers", "scores")}


def test_every_reference_means_an_output_of_an_earlier_node(name: str, document: Document) -> None:
    nodes = data_by_id(document)
    seen = set()
    for node_id, data in nodes.items():
        for source, *path in references(data):
            if source == "sys":
                assert path[0] in SYSTEM_VARIABLES
            elif source == "env":
                assert path[0] in {item["name"] for item in document["workflow"]["environment_variables"]}
            else:
                assert source in ancestors(document, node_id), (node_id, source)
                assert path[0] in outputs_of(nodes[source], TOOLS), (node_id, source, path)
            seen.add((node_id, source, *path))
    *_, last = evaluators_of(name)
    assert {("knowledge", "sys", "query"), (last, "lookup", "reference"), (last, "knowledge", "result")} <= seen


def test_answers_show_the_reply_and_of_what_scored_it_the_text_only(name: str, document: Document) -> None:
    nodes = data_by_id(document)
    assert nodes["reply"]["answer"] == "{{#llm.text#}}"
    shown = [f"{{{{#{node_id}.text#}}}}" for node_id in evaluators_of(name)]
    # Empty lines around the rule: it makes no heading of the reply, and a table can begin after it.
    assert nodes["scores"]["answer"] == "\n\n---\n\n" + "\n".join(shown)


def test_inputs_are_wired_by_their_names_and_the_retrieval_result_as_a_variable(name: str, document: Document) -> None:
    expected = {
        "question": {"type": "mixed", "value": "{{#sys.query#}}"},
        "answer": {"type": "mixed", "value": "{{#llm.text#}}"},
        "contexts": {"type": "variable", "value": ["knowledge", "result"]},
        "reference": {"type": "mixed", "value": "{{#lookup.reference#}}"},
        "documents": {"type": "mixed", "value": "{{#lookup.documents#}}"},
    }
    nodes = data_by_id(document)
    wired = [nodes[node_id]["tool_parameters"] for node_id in evaluators_of(name)]
    assert all(parameters == {key: expected[key] for key in parameters} for parameters in wired)
    assert {key for parameters in wired for key in parameters} >= {"question", "answer", "contexts", "reference"}
    assert ("documents" in wired[0]) == ("scorecard" in name)


def test_tools_are_named_as_the_manifest_names_them(document: Document) -> None:
    manifest = yaml.safe_load((ROOT / "manifest.yaml").read_text(encoding="utf-8"))
    provider = yaml.safe_load((ROOT / manifest["plugins"]["tools"][0]).read_text(encoding="utf-8"))
    full_name = f"{manifest['author']}/{manifest['name']}/{provider['identity']['name']}"
    tools = [data for data in data_by_id(document).values() if data["type"] == "tool"]
    assert {(data["provider_id"], data["provider_name"], data["provider_type"]) for data in tools} == {
        (full_name, full_name, "builtin")
    }
    assert {data["tool_node_version"] for data in tools} == {"2"}


def test_tool_nodes_carry_the_labels_that_the_tools_have(name: str, document: Document) -> None:
    for data in data_by_id(document).values():
        if data["type"] == "tool":
            label = TOOLS[data["tool_name"]]["identity"]["label"][LABELS[language_of(name)]]
            assert (data["title"], data["tool_label"]) == (label, label)


def test_settings_that_stand_at_their_defaults_are_left_out(name: str, document: Document) -> None:
    # Studio lists what is set on a node's card.
    for data in data_by_id(document).values():
        if data["type"] != "tool":
            continue
        # judge_settings reads no text from which "auto" could tell the language.
        only = {"language": {"type": "constant", "value": language_of(name)}}
        assert data["tool_configurations"] == (only if data["tool_name"] == "judge_settings" else {})
        declared = TOOLS[data["tool_name"]]["parameters"]
        # A table may come from the name that it is kept under; the sample is pasted.
        inputs = {item["name"] for item in declared if item["form"] == "llm"} - {"table_name"}
        assert set(data["tool_parameters"]) == inputs


def test_nothing_of_a_workspace_is_inside(name: str, document: Document) -> None:
    assert document["dependencies"] == []
    nodes = data_by_id(document)
    assert nodes["knowledge"]["dataset_ids"] == []
    assert (nodes["llm"]["model"]["provider"], nodes["llm"]["model"]["name"]) == ("", "")
    text = (ROOT / "workflows" / name).read_text(encoding="utf-8")
    assert re.findall(r"\bsk-|api_key|[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-|https?://", text) == []


def test_memory_is_off_and_a_note_says_why(name: str, document: Document) -> None:
    assert "memory" not in data_by_id(document)["llm"]
    assert {"ja": "メモリ", "en": "memory"}[language_of(name)] in notes_of(document)["note_memory"]


def test_a_note_names_the_three_nodes_in_which_something_must_be_chosen(document: Document) -> None:
    nodes = data_by_id(document)
    text = notes_of(document)["note_after_import"]
    for node_id in ("knowledge", "llm", "judge_settings", "lookup"):
        assert nodes[node_id]["title"] in text


def notes_of(document: Document) -> dict[str, str]:
    """The readable text of each note by its id."""
    notes = [node for node in graph_of(document)["nodes"] if node["type"] == "custom-note"]
    roots = {note["id"]: json.loads(note["data"]["text"])["root"] for note in notes}
    return {
        node_id: "\n".join(run["text"] for block in root["children"] for run in block["children"])
        for node_id, root in roots.items()
    }


def test_nothing_overlaps_on_the_canvas_and_edges_run_to_the_right(document: Document) -> None:
    nodes = graph_of(document)["nodes"]
    for one, other in combinations(nodes, 2):
        apart_x = abs(one["position"]["x"] - other["position"]["x"]) >= leftmost(one, other)["width"]
        apart_y = abs(one["position"]["y"] - other["position"]["y"]) >= topmost(one, other)["height"]
        assert apart_x or apart_y, (one["id"], other["id"])
    x = {node["id"]: node["position"]["x"] for node in nodes}
    assert all(x[edge["source"]] < x[edge["target"]] for edge in graph_of(document)["edges"])
    assert all(node["position"] == node["positionAbsolute"] for node in nodes)


def leftmost(*nodes: dict[str, Any]) -> dict[str, Any]:
    return min(nodes, key=lambda node: node["position"]["x"])


def topmost(*nodes: dict[str, Any]) -> dict[str, Any]:
    return min(nodes, key=lambda node: node["position"]["y"])


@pytest.mark.parametrize("pair", PAIRS)
def test_both_languages_have_the_same_graph(pair: tuple[str, str]) -> None:
    japanese, english = (without_texts(read(name)) for name in pair)
    assert japanese == english


@pytest.mark.parametrize(("one", "other"), [(pair[0], pair[1]) for pair in zip(*PAIRS, strict=True)])
def test_the_templates_differ_only_in_what_scores_the_answer(one: str, other: str) -> None:
    graphs = []
    for name in (one, other):
        nodes = data_by_id(without_texts(read(name)))
        apart = {*evaluators_of(name), "scores"}
        graphs.append({node_id: data for node_id, data in nodes.items() if node_id not in apart})
    assert graphs[0] == graphs[1]
    assert list(graphs[0]) == ["start", "knowledge", "llm", "reply", "judge_settings", "lookup", "viewers"]


def without_texts(document: Document) -> Document:
    """The document less everything that a translation changes."""
    for field in ("name", "description"):
        document["app"][field] = ""
    for variable in document["workflow"]["environment_variables"]:
        variable["value"] = variable["description"] = ""
    features = document["workflow"]["features"]
    features["opening_statement"] = ""
    features["suggested_questions"] = len(features["suggested_questions"])
    # A note is as high as its text, and what stands above the chain begins the higher.
    graph_of(document).pop("viewport")
    for node in graph_of(document)["nodes"]:
        data = node["data"]
        for field in ("title", "text", "tool_label", "tool_description"):
            data.pop(field, None)
        if node["type"] == "custom-note":
            data.pop("height")
            for field in ("height", "position", "positionAbsolute"):
                node.pop(field)
        if node["id"] == "llm":
            data["prompt_template"][0]["text"] = "{{#context#}}" in data["prompt_template"][0]["text"]
        if node["id"] == "viewers":
            data["cases"][0]["conditions"][0]["value"] = ""
        if node["id"] == "judge_settings":
            data["tool_configurations"]["language"]["value"] = ""
        if node["id"] == "lookup":
            data["tool_parameters"]["golden"]["value"] = ""
    return document


def test_a_suggested_question_stands_in_the_sample_table_and_another_does_not(document: Document) -> None:
    questions = [row.question for row in sample_table(document)]
    with_reference, without_reference = document["workflow"]["features"]["suggested_questions"]
    assert len(questions) == 3
    assert with_reference in questions
    assert without_reference not in questions


def test_the_sample_table_names_documents_where_a_tool_reads_them(name: str, document: Document) -> None:
    rows = sample_table(document)
    assert all(row.reference for row in rows)
    named = [row.documents for row in rows]
    if "scorecard" not in name:
        assert named == ["", "", ""]
        return
    sample = ROOT / "devhost" / "demo" / "knowledge"
    assert sorted(named) == sorted(path.name for path in sample.iterdir())
    header = data_by_id(document)["lookup"]["tool_parameters"]["golden"]["value"].splitlines()[0]
    assert header == {"ja": "質問\t参照\t文書", "en": "question\treference\tdocuments"}[language_of(name)]


def sample_table(document: Document) -> tuple[Row, ...]:
    return read_table(data_by_id(document)["lookup"]["tool_parameters"]["golden"]["value"]).rows


def test_tool_outputs_that_dify_reserves_are_not_declared() -> None:
    for tool in TOOLS.values():
        assert TOOL_OUTPUTS.isdisjoint(tool["output_schema"]["properties"])
