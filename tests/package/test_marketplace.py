"""The marketplace's rules: the package keeps them all, and each one is seen when it is broken."""

import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from devhost import marketplace
from devhost.marketplace import Package, seconds_to_serve, violations
from devhost.package import build

type Change = Callable[[Package], Mapping[str, str]]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return Package.read(build(tmp_path_factory.mktemp("dist")))


def in_manifest(old: str, new: str) -> Change:
    return in_file("manifest.yaml", old, new)


def in_file(name: str, old: str, new: str) -> Change:
    def change(package: Package) -> Mapping[str, str]:
        text = package.text(name)
        assert old in text
        return {name: text.replace(old, new)}

    return change


def added(name: str, text: str) -> Change:
    return lambda package: {name: package.text(name) + text}


def test_the_package_keeps_every_rule(package: Package) -> None:
    assert violations(package) == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        pytest.param(in_manifest("author: rag-evaluator-team", "author: Team"), "identity: author", id="author"),
        pytest.param(
            in_manifest("author: rag-evaluator-team", "author: my-dify"), "identity: author contains dify", id="dify"
        ),
        pytest.param(in_manifest("name: rag_evaluator", "name: RAG Evaluator"), "identity: name", id="name"),
        pytest.param(in_manifest("\nlabel:\n", "\ntitle:\n"), "identity: label", id="label"),
        pytest.param(in_manifest("    - arm64\n", ""), "identity: meta", id="arch"),
        pytest.param(in_manifest('version: "3.12"', 'version: "3.11"'), "identity: meta.runner.version", id="python"),
        pytest.param(in_manifest("  memory: 268435456\n", ""), "identity: resource.memory", id="memory"),
        pytest.param(in_manifest("repo: https://", "repo: "), "identity: repo", id="repo"),
        pytest.param(in_manifest("  - rag\n", "  - chatbots\n"), "identity: tags", id="tags"),
        pytest.param(in_manifest("icon: icon.svg", "icon: logo.svg"), "named_files: _assets/logo.svg", id="icon"),
        pytest.param(
            in_manifest("privacy: PRIVACY.md", "privacy: POLICY.md"), "named_files: POLICY.md", id="privacy file"
        ),
        pytest.param(
            in_manifest("provider/rag_evaluator.yaml", "provider/x.yaml"), "named_files: provider/x.yaml", id="provider"
        ),
        pytest.param(
            in_file("tools/faithfulness.yaml", "en_US: Faithfulness\n", "en_US: ''\n"), "labels: tools/", id="en_US"
        ),
        pytest.param(
            in_file("tools/faithfulness.yaml", "en_US: Faithfulness\n", f"en_US: {'w' * 1024}\n"),
            "labels: tools/faithfulness.yaml",
            id="long label",
        ),
        pytest.param(added("README.md", "\n忠実性\n"), "readme: README.md has characters", id="kanji"),
        pytest.param(added("README.md", "\n" + "word " * 500), "readme: README.md has 500", id="500 words"),
        pytest.param(added("README.md", "\n![a](./_assets/a.png)\n"), "readme: README.md: ./_assets", id="picture"),
        pytest.param(
            in_file("README.md", "https://example.com/rag-evaluator", "https://other.example"),
            "readme: README.md does not name",
            id="source",
        ),
        pytest.param(
            in_file("PRIVACY.md", "collected", "gathered"), "privacy: PRIVACY.md does not say", id="collected"
        ),
        pytest.param(added("tests/test_x.py", ""), "leftovers: tests/test_x.py", id="tests"),
        pytest.param(added("tools/.env", "A=1"), "leftovers: tools/.env", id=".env"),
        pytest.param(added("pyproject.toml", ""), "leftovers: pyproject.toml", id="pyproject"),
        pytest.param(added("tools/__pycache__/a.pyc", ""), "leftovers: tools/__pycache__/a.pyc", id="cache"),
        pytest.param(added("main.py", f'\nKEY = "{"sk-" + "a1" * 12}"\n'), "secrets: main.py", id="key"),
        pytest.param(added("main.py", '\neval("1")\n'), "security_scan: main.py", id="eval"),
        pytest.param(added("main.py", '\nimport re\nP = re.compile("a")\n'), "security_scan: main.py", id="compile"),
        pytest.param(added("main.py", '\nimport requests\nrequests.get("u")\n'), "timeouts: main.py", id="timeout"),
        pytest.param(
            in_file("requirements.txt", "dify_plugin>=0.10.2,<0.11", "dify_plugin>=0.5,<0.11"),
            "requirements: dify_plugin",
            id="old SDK",
        ),
        pytest.param(
            in_file("requirements.txt", "dify_plugin>=0.10.2,<0.11", "dify_plugin>=0.10.2"),
            "requirements: dify_plugin",
            id="SDK without upper bound",
        ),
        pytest.param(added("requirements.txt", "\nsix\n"), "requirements: six", id="no version"),
    ],
)
def test_a_broken_rule_is_seen_and_nothing_else(change: Change, found: str, package: Package) -> None:
    files = {**package.files, **{name: text.encode() for name, text in change(package).items()}}
    complaints = violations(replace(package, files=files))
    assert complaints
    assert all(complaint.startswith(found) for complaint in complaints), complaints


@pytest.mark.parametrize(
    "code", ['requests.get("u", timeout=5)', 'httpx.stream("GET", "u", **options)', "cache.get(1)"]
)
def test_a_request_with_a_limit_is_none_without(code: str, package: Package) -> None:
    files = {**package.files, "main.py": package.files["main.py"] + f"\n{code}\n".encode()}
    assert violations(replace(package, files=files)) == []


def test_a_package_over_50_megabytes_is_refused(package: Package, tmp_path: Path) -> None:
    large = tmp_path / "large.difypkg"
    with large.open("wb") as file:
        file.truncate(50 * 1024 * 1024 + 1)
    assert violations(replace(package, path=large)) == ["size: over 50 MB"]


def test_the_command_prints_what_is_wrong(package: Package, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert marketplace.main([str(package.path)]) == 0
    assert "nothing to complain of" in capsys.readouterr().out
    spoiled = tmp_path / "spoiled.difypkg"
    spoiled.write_bytes(package.path.read_bytes())
    with zipfile.ZipFile(spoiled, "a") as archive:
        archive.writestr("notes/.env", "A=1")
    assert marketplace.main([str(spoiled)]) == 1
    assert "leftovers: notes/.env" in capsys.readouterr().out


def test_the_unpacked_plugin_is_serving_in_time(package: Package, tmp_path: Path) -> None:
    with zipfile.ZipFile(package.path) as archive:
        archive.extractall(tmp_path)
    assert seconds_to_serve(tmp_path, sys.executable) is not None


@pytest.mark.parametrize("code", ["import time; time.sleep(60)", "raise SystemExit(1)"])
def test_a_plugin_that_does_not_serve_is_seen(code: str, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(code, encoding="utf-8")
    assert seconds_to_serve(tmp_path, sys.executable, limit=2) is None
