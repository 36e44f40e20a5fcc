"""What Dify shows of the plugin: manifest, provider and tool declarations, and the texts around them."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from dify_plugin.core.entities.plugin.setup import PluginConfiguration
from dify_plugin.entities.tool import ToolConfiguration, ToolProviderConfiguration

from bridge import app, drafting
from bridge.call import MAX_QUESTIONS
from bridge.question_table import ACTIONS, HIGHEST_VERSION, SHOWN_STATES
from evaluation.errors import Reason
from evaluation.golden.drafts.plan import USUAL_MIX
from evaluation.golden.kept_rows import KINDS
from evaluation.languages import Language
from evaluation.texts import load_texts

ROOT = Path(__file__).parent.parent
LANGUAGES = ("en_US", "ja_JP", "zh_Hans")
METRICS = ("answer_relevancy", "faithfulness", "context_recall", "context_precision", "answer_correctness")
METRIC_FORM = ["model", "language", "threshold", "votes"]
METRIC_OUTPUTS = {
    "score": "number",
    "score_text": "string",
    "status": "string",
    "reason": "string",
    "passed": "boolean",
    "summary": "string",
    "details": "object",
}
# The order in which Studio shows a tool's fields, the same in all tools: what is done and with what, the models, how
# they judge, what else a tool lets people choose, and last the numbers to be reached.
ORDER = (
    *("action", "app", "question", "answer", "contexts", "reference", "documents"),
    *("document_text", "document_name", "knowledge"),
    *("golden", "golden_file", "table_name", "examples", "version", "run_name", "app_label", "compare_with"),
    *("model", "embedding_model", "metrics", "depth", "language"),
    *("workspace_default", "state", "votes", "question_count", "similarity_weight", "concurrency", "parallel_calls"),
    *("knowledge_address", "knowledge_key", "draft_count", *(f"{kind}_share" for kind in KINDS), "max_calls"),
    *("max_rows", "include_drafts", "repeat", "time_limit", "estimate", "fresh", "retry_failed", "keep_runs"),
    *("min_similarity", "threshold", *(f"{metric}_threshold" for metric in METRICS), "gate", "max_failed"),
)
# tool -> its parameters; a * marks the required ones.
PARAMETERS = {
    "judge_settings": ["model*", "embedding_model", "workspace_default", "language"],
    "reference_lookup": [
        *("question*", "golden", "table_name", "embedding_model", "min_similarity", "include_drafts", "language")
    ],
    "draft_golden": [
        *("contexts", "document_text", "document_name", "knowledge", "table_name", "examples"),
        *("model", "embedding_model", "language", "knowledge_address", "knowledge_key", "draft_count"),
        *(f"{kind}_share" for kind in KINDS),
        *("max_calls", "time_limit", "estimate"),
    ],
    "question_table": ["action", "table_name", "golden", "golden_file", "version", "state", "language"],
    "answer_relevancy": ["question*", "answer*", "model", "embedding_model", *METRIC_FORM[1:], "question_count"],
    "faithfulness": ["question*", "answer*", "contexts*", *METRIC_FORM, "depth"],
    "context_recall": ["question*", "reference", "contexts*", *METRIC_FORM, "depth"],
    "context_precision": ["question*", "reference", "contexts*", *METRIC_FORM, "depth"],
    "answer_correctness": [
        *("question*", "answer*", "reference", "model", "embedding_model"),
        *(*METRIC_FORM[1:], "similarity_weight"),
    ],
    "evaluate_answer": [
        *("question*", "answer*", "contexts*", "reference", "documents"),
        *("model", "embedding_model", "metrics", "depth", "language"),
        *("votes", "question_count", "threshold"),
    ],
    "evaluate_app": [
        *("app*", "golden", "golden_file", "table_name", "run_name", "app_label"),
        *("model", "embedding_model", "metrics", "depth", "language", "threshold"),
        *(f"{metric}_threshold" for metric in METRICS),
        *("gate", "max_failed"),
        *("votes", "question_count", "concurrency", "parallel_calls"),
        *("max_rows", "include_drafts", "repeat", "time_limit", "fresh"),
        *("retry_failed", "compare_with", "keep_runs"),
    ],
}
OUTPUTS = dict.fromkeys(METRICS, METRIC_OUTPUTS) | {
    "reference_lookup": {
        "reference": "string",
        "found": "boolean",
        "documents": "string",
        "matched_question": "string",
        "similarity": "number",
        "status": "string",
        "reason": "string",
        "summary": "string",
        "details": "object",
    },
    "evaluate_answer": {
        **dict.fromkeys(METRICS, "number"),
        "status": "string",
        "reason": "string",
        "passed": "boolean",
        "summary": "string",
        "diagnosis": "string",
        "details": "object",
    },
    "evaluate_app": {
        "scores": "object",
        "status": "string",
        "reason": "string",
        "passed": "boolean",
        "finished": "boolean",
        "done": "number",
        "total": "number",
        "summary": "string",
        "details": "object",
    },
    "draft_golden": {
        "table": "string",
        "table_name": "string",
        "version": "number",
        "asked": "number",
        "kept": "number",
        "finished": "boolean",
        "status": "string",
        "reason": "string",
        "summary": "string",
        "details": "object",
    },
    "question_table": {
        "table": "string",
        "table_name": "string",
        "version": "number",
        "rows": "number",
        "saved": "boolean",
        "status": "string",
        "reason": "string",
        "summary": "string",
        "details": "object",
    },
    "judge_settings": {
        "saved": "boolean",
        "model_name": "string",
        "embedding_model_name": "string",
        "status": "string",
        "reason": "string",
        "summary": "string",
        "details": "object",
    },
}
OPTIONS = {
    "language": ["auto", "ja", "en", "zh"],
    "votes": ["1", "3", "5"],
    "depth": ["economy", "standard", "careful"],
    "gate": ["mean", "sure"],
    "action": list(ACTIONS),
    "state": list(SHOWN_STATES),
    "metrics": ["four", "four_and_correctness", "answer", "retrieval"],
}
KANJI = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
KANA = re.compile(r"[\u3041-\u30ff]")


def load(path: str) -> dict[str, Any]:
    """The content of a YAML file of the plugin."""
    content = yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


MANIFEST = load("manifest.yaml")
PROVIDER = load("provider/rag_evaluator.yaml")
TOOLS = {name: load(f"tools/{name}.yaml") for name in PARAMETERS}


def translations(node: Any, where: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Every mapping with language keys below a node, with its place."""
    if isinstance(node, dict):
        if "en_US" in node:
            yield where, node
        else:
            for key, value in node.items():
                yield from translations(value, f"{where}.{key}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from translations(value, f"{where}[{index}]")


ALL_TRANSLATIONS = [
    *translations(MANIFEST, "manifest"),
    *translations(PROVIDER, "provider"),
    *(entry for name, tool in TOOLS.items() for entry in translations(tool, name)),
]


def parameter(tool: str, name: str) -> dict[str, Any]:
    """One parameter of a tool."""
    found: dict[str, Any] = next(entry for entry in TOOLS[tool]["parameters"] if entry["name"] == name)
    return found


def shared_parameters() -> list[tuple[str, list[str]]]:
    """Parameters that stand in several tools, with the tools."""
    tools: dict[str, list[str]] = {}
    for tool, declaration in TOOLS.items():
        for entry in declaration["parameters"]:
            tools.setdefault(entry["name"], []).append(tool)
    return [(name, places) for name, places in tools.items() if len(places) > 1]


# --- as the SDK reads it ---


def test_the_sdk_reads_the_manifest() -> None:
    manifest = PluginConfiguration(**MANIFEST)

    assert (manifest.author, manifest.name) == ("rag-evaluator-team", "rag_evaluator")
    assert [arch.value for arch in manifest.meta.arch] == ["amd64", "arm64"]
    assert (manifest.meta.runner.language.value, manifest.meta.runner.version) == ("python", "3.12")
    assert manifest.meta.runner.entrypoint == "main"
    assert manifest.plugins.tools == ["provider/rag_evaluator.yaml"]


def test_the_plugin_asks_only_for_the_permissions_it_uses() -> None:
    assert MANIFEST["resource"]["permission"] == {
        "tool": {"enabled": True},
        "model": {"enabled": True, "llm": True, "text_embedding": True},
        "app": {"enabled": True},
        # For the rows of evaluate_app's runs.
        "storage": {"enabled": True, "size": 256 * 1024 * 1024},
        # For the results page.
        "endpoint": {"enabled": True},
    }


def test_the_sdk_reads_the_provider_with_all_its_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)

    provider = ToolProviderConfiguration(**load("provider/rag_evaluator.yaml"))

    assert {tool.identity.name for tool in provider.tools} == set(PARAMETERS)
    assert provider.credentials_schema == []
    assert provider.extra.python.source == "provider/rag_evaluator.py"


def test_every_tool_file_is_declared_and_tested_here() -> None:
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tools").glob("*.yaml")}

    assert files == set(PROVIDER["tools"]) == {f"tools/{name}.yaml" for name in PARAMETERS}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_tools_names_agree_with_its_files(name: str) -> None:
    tool = ToolConfiguration(**TOOLS[name])

    assert tool.identity.name == name
    assert tool.identity.author == MANIFEST["author"]
    assert tool.extra.python.source == f"tools/{name}.py"


# --- the contract ---


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_tool_has_exactly_the_agreed_parameters_in_the_order_of_all_tools(name: str) -> None:
    found = [entry["name"] + "*" * entry["required"] for entry in TOOLS[name]["parameters"]]

    assert found == sorted(PARAMETERS[name], key=lambda entry: ORDER.index(entry.removesuffix("*")))


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_tool_has_exactly_the_agreed_outputs(name: str) -> None:
    properties = TOOLS[name]["output_schema"]["properties"]

    assert {key: value["type"] for key, value in properties.items()} == OUTPUTS[name]
    assert not {"text", "json", "files"} & set(properties), "Dify keeps these names for itself"
    assert all(value["description"].strip() for value in properties.values())


@pytest.mark.parametrize("name", [*METRICS, "reference_lookup", "evaluate_app", "question_table", "draft_golden"])
def test_the_description_of_a_number_warns_of_comparing_with_equals(name: str) -> None:
    # Dify hands 0.0 and 1.0 on as int, and "= 0.5" then fails the whole workflow.
    properties = TOOLS[name]["output_schema"]["properties"].values()
    numbers = [value["description"] for value in properties if value["type"] == "number"]

    assert numbers
    assert all("≥ or ≤, never with =" in description for description in numbers)


@pytest.mark.parametrize(("name", "tools"), shared_parameters())
def test_a_shared_parameter_is_the_same_in_all_tools(name: str, tools: list[str]) -> None:
    # What differs on purpose: the one required model, what a model or a depth does in the tool at hand, and what is
    # left out without a reference.
    free = {"model": {"required", "label", "human_description"}, "embedding_model": {"human_description"}}
    free["depth"] = free["reference"] = {"human_description"}
    # Beside a file a pasted table is no longer needed, and its further columns mean something.
    free["golden"] = {"required", "human_description", "llm_description"}
    # Of this call alone, or what the other tools fall back on.
    free["language"] = {"human_description"}
    # A name to save under, or to look up.
    free["table_name"] = {"human_description", "llm_description"}
    # Chunks to judge, or to make questions from.
    free["contexts"] = {"required", "human_description", "llm_description"}

    def kept(tool: str) -> dict[str, Any]:
        return {key: value for key, value in parameter(tool, name).items() if key not in free.get(name, set())}

    assert {tool: kept(tool) for tool in tools} == {tool: kept(tools[0]) for tool in tools}


def test_the_optional_judge_model_is_described_alike_in_all_metrics() -> None:
    texts = [parameter(name, "model")["human_description"] for name in METRICS]

    assert texts == [texts[0]] * len(METRICS)


@pytest.mark.parametrize("name", PARAMETERS)
def test_inputs_are_wired_and_settings_are_chosen(name: str) -> None:
    wired = {"question", "answer", "reference", "contexts", "golden", "documents"}
    wired |= {"golden_file", "run_name", "app_label", "compare_with", "table_name", "version"}
    wired |= {"document_text", "document_name", "knowledge", "examples"}

    for entry in TOOLS[name]["parameters"]:
        assert entry["form"] == ("llm" if entry["name"] in wired else "form")
        assert ("llm_description" in entry) == (entry["name"] in wired)


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameter_types_are_those_that_dify_hands_over(name: str) -> None:
    types = {
        "contexts": "array",
        "model": "model-selector",
        "embedding_model": "model-selector",
        **dict.fromkeys(("threshold", *(f"{metric}_threshold" for metric in METRICS)), "number"),
        **dict.fromkeys(("min_similarity", "question_count", "similarity_weight"), "number"),
        **dict.fromkeys(
            (
                *("concurrency", "parallel_calls", "max_rows", "repeat", "time_limit", "keep_runs"),
                *("max_failed", "version", "draft_count", "max_calls", *(f"{kind}_share" for kind in KINDS)),
            ),
            "number",
        ),
        "workspace_default": "boolean",
        **dict.fromkeys(("fresh", "retry_failed", "include_drafts", "estimate"), "boolean"),
        "knowledge_key": "secret-input",
        "app": "app-selector",
        # Of any number: with `file` Dify refuses a call without one.
        "golden_file": "files",
    } | dict.fromkeys(OPTIONS, "select")
    scopes = {"model": "llm", "embedding_model": "text-embedding", "app": "all"}

    for entry in TOOLS[name]["parameters"]:
        assert entry["type"] == types.get(entry["name"], "string")
        assert entry.get("scope") == scopes.get(entry["name"])


@pytest.mark.parametrize("name", PARAMETERS)
def test_select_options_are_complete_and_hold_their_default(name: str) -> None:
    for entry in TOOLS[name]["parameters"]:
        options = [option["value"] for option in entry.get("options", [])]
        assert options == OPTIONS.get(entry["name"], [])
        assert entry["type"] != "select" or entry["default"] in options


@pytest.mark.parametrize(
    ("tool", "name", "low", "high", "default"),
    [
        ("answer_relevancy", "question_count", 1, 10, 3),
        ("faithfulness", "threshold", 0, 1, None),
        ("evaluate_app", "faithfulness_threshold", 0, 1, None),
        ("answer_correctness", "similarity_weight", 0, 1, None),
        ("reference_lookup", "min_similarity", 0, 1, None),
        ("evaluate_app", "threshold", 0, 1, None),
        ("evaluate_app", "question_count", 1, MAX_QUESTIONS, 3),
        ("evaluate_app", "concurrency", 1, app.MAX_CONCURRENCY, 4),
        ("evaluate_app", "max_rows", 1, app.MAX_ROWS, None),
        ("evaluate_app", "repeat", 1, app.MAX_REPEAT, 1),
        ("evaluate_app", "time_limit", app.SHORTEST_SECONDS, app.LONGEST_SECONDS, app.DEFAULT_SECONDS),
        ("evaluate_app", "max_failed", 0, 1, 0),
        ("evaluate_app", "keep_runs", 1, app.MAX_KEPT_RUNS, app.DEFAULT_KEPT_RUNS),
        ("draft_golden", "draft_count", 1, drafting.MOST_DRAFTS, drafting.DEFAULT_DRAFTS),
        ("draft_golden", "max_calls", 1, drafting.MOST_CALLS, drafting.DEFAULT_CALLS),
        *(("draft_golden", f"{kind}_share", 0, drafting.MOST_SHARE, USUAL_MIX[kind]) for kind in KINDS),
        ("question_table", "version", 1, HIGHEST_VERSION, None),
    ],
)
def test_numbers_have_their_limits(tool: str, name: str, low: float, high: float, default: float | None) -> None:
    entry = parameter(tool, name)

    assert (entry["min"], entry["max"], entry.get("default")) == (low, high, default)


# --- what people read ---


@pytest.mark.parametrize(("code", "language"), [("en", "en_US"), ("ja", "ja_JP"), ("zh", "zh_Hans")])
def test_help_names_what_studio_shows(code: Language, language: str) -> None:
    # sys.query is not in the variable picker of 1.16; an array field opens as a JSON editor; a setting without a star
    # looks required all the same.
    user_input = {"en": "User Input", "ja": "ユーザー入力", "zh": "用户输入"}[code]
    optional = {"en": "optional", "ja": "任意", "zh": "可选"}[code]
    for tool in TOOLS.values():
        for entry in tool["parameters"]:
            label, text = entry["label"][language], entry["human_description"][language]
            if entry["name"] == "question":
                assert re.search(rf"{user_input}.*query.*sys\.query|query.*{user_input}.*sys\.query", text)
            if entry["name"] == "contexts":
                assert re.search(r"\{x\}.*result", label)
            if entry["type"] == "model-selector":
                assert (optional in label) != entry["required"]
    reason = load_texts(code).get("reasons.no_question")
    assert user_input in reason
    assert "sys.query" in reason


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en_US", "scores that need it are left out"),
        ("ja_JP", "参照が要る指標だけ"),
        ("zh_Hans", "只有需要参考答案的指标"),
    ],
)
def test_the_reference_of_all_scores_says_which_of_them_need_it(language: str, words: str) -> None:
    assert words in parameter("evaluate_answer", "reference")["human_description"][language]


@pytest.mark.parametrize(("where", "texts"), ALL_TRANSLATIONS)
def test_every_text_has_three_languages_of_its_own(where: str, texts: dict[str, str]) -> None:
    assert tuple(texts) == LANGUAGES, where
    assert all(text == text.strip() and 0 < len(text) < 1024 for text in texts.values()), where


@pytest.mark.parametrize(("where", "texts"), ALL_TRANSLATIONS)
def test_texts_are_written_in_the_characters_of_their_language(where: str, texts: dict[str, str]) -> None:
    assert not KANJI.search(texts["en_US"]), where
    assert not KANA.search(texts["en_US"] + texts["zh_Hans"]), where
    # The everyday character sets: simplified forms are not in JIS X 0208, Japanese forms not in GB 2312.
    texts["ja_JP"].encode("shift_jis")
    texts["zh_Hans"].encode("gb2312")


@pytest.mark.parametrize("name", PARAMETERS)
def test_descriptions_for_models_are_english_and_short_enough(name: str) -> None:
    texts = [TOOLS[name]["description"]["llm"]]
    texts += [entry["llm_description"] for entry in TOOLS[name]["parameters"] if "llm_description" in entry]

    assert all(text.isascii() and 0 < len(text) < 1024 for text in texts)


@pytest.mark.parametrize(("code", "language"), [("en", "en_US"), ("ja", "ja_JP"), ("zh", "zh_Hans")])
def test_labels_and_results_use_the_same_names(code: Language, language: str) -> None:
    results = tomllib.loads((ROOT / f"evaluation/texts/{code}.toml").read_text(encoding="utf-8"))
    texts = load_texts(code)
    labels = {entry["name"]: entry["label"][language] for tool in TOOLS.values() for entry in tool["parameters"]}

    for metric in METRICS:
        assert texts.get(f"metrics.{metric}") == TOOLS[metric]["identity"]["label"][language]
        threshold = texts.reason(Reason.MODEL_NOT_SELECTED, {"field": f"{metric}_threshold"})
        assert labels[f"{metric}_threshold"].casefold() in threshold.casefold()
    for field, name in results["fields"].items():
        # Without the article before it and the variable's name behind it.
        plain = re.sub(r"^(The|A|An) |（.*）$", "", name)
        assert plain.casefold() in labels[field].casefold()
    settings = TOOLS["judge_settings"]["identity"]["label"][language]
    assert settings.casefold() in results["reasons"]["model_not_selected"].casefold()


def test_manifest_and_provider_show_the_same_name_and_icons() -> None:
    assert PROVIDER["identity"]["label"] == MANIFEST["label"]
    assert PROVIDER["identity"]["description"] == MANIFEST["description"]
    for icon in ("icon", "icon_dark"):
        assert PROVIDER["identity"][icon] == MANIFEST[icon]
        assert (ROOT / "_assets" / MANIFEST[icon]).read_text(encoding="utf-8").startswith("<svg")
