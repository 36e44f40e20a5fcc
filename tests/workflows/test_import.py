"""What a Dify looks at when a template is imported: its version, its dependencies, its environment variable."""

from pathlib import Path

import pytest
import yaml
from packaging.version import Version

from devhost import templates
from tests.workflows.test_templates import EXPORT, FILES, ROOT, Document, notes_of, read


@pytest.fixture(params=FILES)
def document(request: pytest.FixtureRequest) -> Document:
    return read(request.param)


# The version that each Dify writes itself.
DSL_VERSIONS = {"1.12": "0.5.0", "1.13.3": "0.6.0", "1.15.0": "0.6.0", "1.16.0": "0.7.0"}


def import_status(imported: object, current: str) -> str:
    """What Dify makes of a document's version, as its import decides it."""
    if not isinstance(imported, str):
        return "failed"
    theirs, ours = Version(imported), Version(current)
    if theirs > ours or theirs.major < ours.major:
        return "pending"
    return "completed-with-warnings" if theirs.minor < ours.minor else "completed"


def test_every_dify_that_the_plugin_runs_on_imports_at_once_and_the_oldest_without_a_notice(document: Document) -> None:
    manifest = yaml.safe_load((ROOT / "manifest.yaml").read_text(encoding="utf-8"))
    assert manifest["meta"]["minimum_dify_version"] == "1.12.0"
    statuses = {dify: import_status(document["version"], current) for dify, current in DSL_VERSIONS.items()}
    # No version is without a notice in all of them: a newer one than a Dify's own waits for a confirmation there.
    assert statuses.pop("1.12") == "completed"
    assert set(statuses.values()) == {"completed-with-warnings"}
    assert (document["kind"], document["app"]["mode"]) == ("app", "advanced-chat")


def test_the_environment_variable_has_the_fields_of_an_export_and_its_word_stands_in_the_note(
    document: Document,
) -> None:
    [variable] = document["workflow"]["environment_variables"]
    assert set(variable) == {"description", "id", "name", "selector", "value", "value_type"}
    assert (variable["selector"], variable["value_type"]) == (["env", variable["name"]], "string")
    note = notes_of(document)["note_viewers"]
    for word in (variable["name"], variable["value"], "sys.workflow_id", "sys.user_id"):
        assert word in note
        assert word in variable["description"] + variable["name"]


def test_the_dependency_is_the_published_plugin(tmp_path: Path) -> None:
    path = tmp_path / "published.yaml"
    identifier = f"rag-evaluator-team/rag_evaluator:0.1.0@{'0a' * 32}"
    path.write_text(f'marketplace_plugin_unique_identifier: "{identifier}"\n', encoding="utf-8")
    [dependency] = templates.dependencies(path)
    assert dependency == {
        "current_identifier": None,
        "type": "marketplace",
        "value": {"marketplace_plugin_unique_identifier": identifier, "version": None},
    }
    # What an export names, but for where the plugin comes from.
    [exported] = yaml.safe_load(EXPORT.read_text(encoding="utf-8"))["dependencies"]
    assert set(exported) == set(dependency)


@pytest.mark.parametrize(
    "identifier", ["somebody/rag_evaluator:0.1.0@" + "0a" * 32, "rag-evaluator-team/rag_evaluator:0.1.0", "?"]
)
def test_another_identifier_is_refused(identifier: str, tmp_path: Path) -> None:
    path = tmp_path / "published.yaml"
    path.write_text(f'marketplace_plugin_unique_identifier: "{identifier}"\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"published\.yaml"):
        templates.dependencies(path)
