"""The workflow template for whole question tables: as a document, and run by graphon with the real plugin."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from graphon.file.models import File
from openpyxl import load_workbook

from bridge.app import DEFAULT_SECONDS
from devhost.apps import Apps, FlowApp
from devhost.chatflow import Chatflow, ChatReply, choose
from devhost.daemon import PluginProcess
from devhost.dify_side import ModelServer
from devhost.files import HostedFiles
from devhost.flow_nodes import declared_tools
from devhost.knowledge import KnowledgeBase
from devhost.templates import DSL_VERSION
from evaluation.golden.files import MAX_FILE_BYTES
from tests.apps.support import chatflow, documents, question, rows, script, table
from tests.model_server import ScriptedModelServer
from tests.tools.support import invoke
from tests.workflows.dsl import ancestors, checklist, data_by_id, graph_of, outputs_of, references

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / "workflows"
NAMES = ("batch_evaluation.yml", "batch_evaluation_en.yml")
TOOLS = declared_tools(ROOT)
LABELS = {"batch_evaluation.yml": "ja_JP", "batch_evaluation_en.yml": "en_US"}

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"

type Document = dict[str, Any]
type Run = Callable[..., ChatReply]


def read(name: str) -> Document:
    document: Document = yaml.safe_load((WORKFLOWS / name).read_text(encoding="utf-8"))
    return document


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_checklist_names_the_judge_model_and_the_app_and_is_empty_once_they_are_chosen(name: str) -> None:
    assert checklist(read(name), TOOLS) == [("judge_settings", "model"), ("batch", "app")]
    assert checklist(choose(read(name), judge_model="judge", app_id="bot"), TOOLS) == []


def test_it_is_a_workflow_of_the_version_that_all_templates_have(name: str) -> None:
    document = read(name)
    assert (document["kind"], document["app"]["mode"], document["version"]) == ("app", "workflow", DSL_VERSION)
    assert document["dependencies"] == []
    assert document["workflow"]["environment_variables"] == []


def test_every_reference_means_an_output_of_an_earlier_node(name: str) -> None:
    document = read(name)
    nodes = data_by_id(document)
    seen = set()
    for node_id, data in nodes.items():
        for source, *path in references(data):
            assert source in ancestors(document, node_id)
            assert path[0] in outputs_of(nodes[source], TOOLS)
            seen.add((node_id, source, path[0]))
    assert seen == {
        ("batch", "start", "table"),
        ("batch", "start", "files"),
        ("batch", "start", "table_name"),
        ("batch", "start", "run_name"),
        ("output", "batch", "text"),
        ("output", "batch", "files"),
    }


def test_settings_stand_at_their_defaults_and_are_left_out(name: str) -> None:
    nodes = data_by_id(read(name))
    language = {"ja_JP": "ja", "en_US": "en"}[LABELS[name]]
    # It reads no text from which "auto" could tell the language.
    assert nodes["judge_settings"]["tool_configurations"] == {"language": {"type": "constant", "value": language}}
    assert nodes["batch"]["tool_configurations"] == {}
    declared = {item["name"] for item in TOOLS["evaluate_app"]["parameters"] if item["form"] == "llm"}
    assert set(nodes["batch"]["tool_parameters"]) <= declared


def test_nodes_have_the_fields_of_an_export(name: str) -> None:
    """An input as Studio exports it; node and edge as in the exported chatflow."""
    exported = yaml.safe_load((Path(__file__).parent / "data" / "newcomer_skeleton.yml").read_text(encoding="utf-8"))
    ours, theirs = graph_of(read(name)), graph_of(exported)
    assert {frozenset(edge) for edge in ours["edges"]} == {frozenset(edge) for edge in theirs["edges"]}
    assert {frozenset(node) for node in ours["nodes"]} == {frozenset(node) for node in theirs["nodes"]}
    tools, exported_tools = (
        {frozenset(data) for data in data_by_id(document).values() if data["type"] == "tool"}
        for document in (read(name), exported)
    )
    assert tools == exported_tools
    common = {"default", "hint", "label", "max_length", "options", "placeholder", "required", "type", "variable"}
    of_files = {"allowed_file_extensions", "allowed_file_types", "allowed_file_upload_methods"}
    files, *texts = data_by_id(read(name))["start"]["variables"]
    assert [entry["variable"] for entry in texts] == ["table", "table_name", "run_name"]
    assert (set(files), [set(entry) for entry in texts]) == (common | of_files, [common] * 3)


def test_the_tool_nodes_carry_the_labels_that_the_tools_have(name: str) -> None:
    for data in data_by_id(read(name)).values():
        if data["type"] == "tool":
            assert data["title"] == TOOLS[data["tool_name"]]["identity"]["label"][LABELS[name]]


def test_a_note_names_the_nodes_in_which_something_must_be_chosen(name: str) -> None:
    nodes = data_by_id(read(name))
    [note] = [node for node in graph_of(read(name))["nodes"] if node["type"] == "custom-note"]
    for node_id in ("judge_settings", "batch"):
        assert nodes[node_id]["title"] in note["data"]["text"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("batch_evaluation.yml", ["100 問で", "分ほど", f"{DEFAULT_SECONDS} 秒", "「1 回実行」", "「一括実行」"]),
        (
            "batch_evaluation_en.yml",
            ["100 questions", "minutes", f"{DEFAULT_SECONDS} seconds", "Run Once", "Run Batch"],
        ),
    ],
)
def test_a_note_says_how_long_is_normal_and_which_tab_to_use(name: str, words: list[str]) -> None:
    # No line of progress is shown: whatever a tool says while it runs stays in its result for good.
    [note] = [node for node in graph_of(read(name))["nodes"] if node["type"] == "custom-note"]
    assert [word for word in words if word not in json.loads(note["data"]["text"])["root"].__repr__()] == []


def test_both_languages_have_the_same_graph() -> None:
    graphs = []
    for name in NAMES:
        nodes = data_by_id(read(name))
        for data in nodes.values():
            for field in ("title", "tool_label", "tool_description"):
                data.pop(field, None)
            for variable in data.get("variables", []):
                variable["label"] = ""
        nodes["judge_settings"]["tool_configurations"]["language"]["value"] = ""
        graphs.append(nodes)
    assert graphs[0] == graphs[1]


@pytest.fixture
def files() -> Iterator[HostedFiles]:
    with HostedFiles() as hosted:
        yield hosted


@pytest.fixture
def apps(plugin: PluginProcess, model_server: ScriptedModelServer, tmp_path: Path) -> Apps:
    script(model_server)
    knowledge = documents(tmp_path, 3)
    workspace = Apps()
    workspace.publish("bot", bot(plugin, model_server, knowledge))
    plugin.dify.handlers["app"] = workspace.answer
    return workspace


def bot(plugin: PluginProcess, model_server: ScriptedModelServer, knowledge: KnowledgeBase) -> FlowApp:
    return FlowApp(Chatflow(chatflow(knowledge), plugin, ModelServer(model_server.url), [knowledge], app_id="bot"))


@pytest.fixture
def run(plugin: PluginProcess, model_server: ScriptedModelServer, files: HostedFiles, apps: Apps) -> Run:  # noqa: ARG001
    """Runs a template with the models and the app chosen; inputs are those of its Start node."""

    def call(name: str, **inputs: Any) -> ChatReply:
        document = choose(WORKFLOWS / name, judge_model="judge-1", app_id="bot")
        flow = Chatflow(document, plugin, ModelServer(model_server.url), app_id="batch", files=files)
        reply = flow.run("", inputs=inputs)
        assert reply.error is None
        assert reply.order == ["start", "judge_settings", "batch", "output"]
        return reply

    return call


def test_a_file_goes_in_and_the_summary_and_two_reports_come_out(
    name: str, run: Run, files: HostedFiles, apps: Apps
) -> None:
    csv = "\r\n".join(["質問,参照", *(f"{row['質問']},{row['参照']}" for row in rows(3))])
    uploaded = files.add("質問.csv", csv.encode("cp932"))
    reply = run(name, files=[uploaded], run_name="週次")
    assert files.fetched == [uploaded.reference]
    assert [apps.asked(question(n)) for n in (1, 2, 3)] == [1, 1, 1]
    assert reply.streamed.startswith(reply.outputs["text"])
    assert "1.00" in reply.outputs["text"]
    page, spreadsheet = reply.outputs["files"]
    assert [file.filename for file in (page, spreadsheet)] == ["週次-1.html", "週次-1.xlsx"]
    assert [file.mime_type for file in (page, spreadsheet)] == ["text/html", XLSX]
    assert question(3) in files.content(page).decode()
    assert load_workbook(io.BytesIO(files.content(spreadsheet))).worksheets
    nodes = reply.node_outputs
    assert nodes["judge_settings"]["saved"] is True
    assert (nodes["batch"]["status"], nodes["batch"]["finished"], nodes["batch"]["done"]) == ("scored", True, 3)


def test_a_pasted_table_needs_no_file_and_no_name(run: Run, apps: Apps) -> None:
    reply = run(NAMES[0], table=table(rows(2)))
    assert reply.node_outputs["batch"]["status"] == "scored"
    assert {call.query for call in apps.calls} == {question(1), question(2)}
    assert isinstance(reply.outputs["files"][0], File)


def test_a_kept_table_needs_no_more_than_its_name(run: Run, apps: Apps, plugin: PluginProcess) -> None:
    saved = {"action": "replace", "table_name": "申請の質問", "golden": table(rows(2))}
    invoke(plugin, "question_table", saved)
    reply = run(NAMES[0], table_name="申請の質問")
    assert reply.node_outputs["batch"]["details"]["table"]["version"] == 1
    assert {call.query for call in apps.calls} == {question(1), question(2)}


def test_nothing_given_is_told_in_the_output(name: str, run: Run, apps: Apps) -> None:
    reply = run(name)
    assert (reply.node_outputs["batch"]["reason"], reply.outputs["files"]) == ("no_table", [])
    assert reply.outputs["text"]
    assert apps.calls == []


def test_a_second_run_under_the_name_is_compared_with_the_first(run: Run, apps: Apps) -> None:
    for _ in range(2):
        reply = run(NAMES[0], table=table(rows(2)), run_name="週次")
    assert reply.node_outputs["batch"]["details"]["compared_with"] == "週次 #1"
    assert reply.node_outputs["batch"]["details"]["reused_rows"] == 2
    assert len(apps.calls) == 4


def test_files_that_are_too_large_are_known_by_what_dify_says_of_them(run: Run, files: HostedFiles, apps: Apps) -> None:
    uploaded = files.add("質問.csv", b"x", size=MAX_FILE_BYTES + 1)
    reply = run(NAMES[0], files=[uploaded])
    assert reply.node_outputs["batch"]["reason"] == "file_too_large"
    assert (files.fetched, apps.calls) == ([], [])
