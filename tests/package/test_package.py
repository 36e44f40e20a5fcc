"""The package: what is in it, and that it runs from where Dify unpacks it."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from packaging.requirements import Requirement

from devhost.daemon import PluginProcess, collect
from devhost.dify_side import DifySide, ModelServer
from devhost.package import PARTS, PLACEHOLDERS, PackageError, build, packed_files, published, read_manifest
from tests.model_server import ScriptedModelServer
from tests.package import official_rule

ROOT = Path(__file__).parents[2]
READMES = ("README.md", "readme/README_ja_JP.md", "readme/README_zh_Hans.md")
TABLE = "質問\t参照\n受付は何時からですか\t9時からです。\n"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def unpacked(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(package) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder that can be packed and changed."""
    folder = tmp_path / "copy"
    for name in [".difyignore", *packed_files(ROOT)]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def test_its_name_holds_the_plugins_name_and_version(package: Path) -> None:
    assert package.name == "rag_evaluator-{version}.difypkg".format(**read_manifest())


def test_it_holds_what_the_plugin_needs_and_nothing_else(unpacked: Path) -> None:
    assert {path.name for path in unpacked.iterdir()} == PARTS
    suffixes = {path.suffix for path in unpacked.rglob("*") if path.is_file()}
    assert suffixes <= {"", ".css", ".jinja", ".js", ".md", ".py", ".svg", ".toml", ".txt", ".yaml"}


LEFTOVERS = (
    "tools/.env",
    "evaluation/__pycache__/sample.cpython-312.pyc",
    "evaluation/metrics/__pycache__/deep/a.txt",
    "bridge/models.py~",
    "tests/test_x.py",
    "devhost/a/b.py",
    ".env",
    ".venv/bin/python",
    "dist/old.difypkg",
    "readme/images/picture.png",
    "requirements-dev.txt",
    "pyproject.toml",
)


def leave(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("left over", encoding="utf-8")


@pytest.mark.parametrize("leftovers", [(), LEFTOVERS])
def test_difys_own_packaging_tool_takes_the_same_files(copy: Path, leftovers: tuple[str, ...]) -> None:
    leave(copy, *leftovers)

    assert official_rule.taken(copy) == packed_files(copy) == packed_files(ROOT)


def test_difys_own_packaging_tool_takes_the_same_files_of_this_tree() -> None:
    assert official_rule.taken(ROOT) == packed_files(ROOT)


@pytest.mark.parametrize(
    ("ignored", "files"),
    [
        # The allow list that once gave an empty package, and exit code 0.
        ("/*\n!/main.py\n!/tools/\n__pycache__/", []),
        ("*.pyc\n!tools/kept.pyc\n", ["main.py", "sub/tools/a.py", "tools/a.py"]),
        ("/tools/\n", ["kept.pyc", "main.py", "sub/tools/a.py"]),
        ("tools/\n", ["kept.pyc", "main.py"]),
        ("a.py\n#main.py\n  kept.pyc  \n", ["main.py", "tools/kept.pyc"]),
        ("main.py/\nsub/*\n", ["kept.pyc", "main.py", "tools/a.py", "tools/kept.pyc"]),
    ],
)
def test_the_rule_of_difys_own_packaging_tool(ignored: str, files: list[str], tmp_path: Path) -> None:
    leave(tmp_path, "main.py", "kept.pyc", "tools/a.py", "tools/kept.pyc", "sub/tools/a.py")
    # No pattern speaks of the file itself, which the tool reads and, unless told otherwise, packs.
    (tmp_path / ".difyignore").write_text(ignored + "\n.difyignore", encoding="utf-8")
    expected = [name for name in files if "kept.pyc" not in name or "  kept.pyc" not in ignored]

    assert official_rule.taken(tmp_path) == expected


def test_leftovers_in_its_folders_stay_out(copy: Path, tmp_path: Path) -> None:
    leave(copy, *LEFTOVERS)

    with zipfile.ZipFile(build(tmp_path, copy)) as archive:
        assert archive.namelist() == packed_files(ROOT)


@pytest.mark.parametrize("name", ["notes.txt", "customers.csv", "old/main.py"])
def test_what_is_no_part_of_the_plugin_is_refused_by_name(name: str, copy: Path, tmp_path: Path) -> None:
    leave(copy, name)

    with pytest.raises(PackageError, match=re.escape(name.split("/", maxsplit=1)[0])):
        build(tmp_path, copy)


def test_the_same_files_give_the_same_bytes(copy: Path, tmp_path: Path) -> None:
    before = build(tmp_path, copy).read_bytes()
    for path in copy.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
        path.chmod(0o700)

    assert build(tmp_path, copy).read_bytes() == before
    # Of a clone in another place, too.
    assert build(tmp_path).read_bytes() == before


def test_the_publishers_repository_and_contact_are_set_in_one_place(copy: Path, tmp_path: Path) -> None:
    manifest = (copy / "manifest.yaml").read_text(encoding="utf-8")
    for field, placeholder in PLACEHOLDERS.items():
        manifest = manifest.replace(f"{field}: {placeholder}", f"{field}: https://the-{field}.example.org/x")
    (copy / "manifest.yaml").write_text(manifest, encoding="utf-8")

    with zipfile.ZipFile(build(tmp_path, copy)) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist() if name.endswith((".md", ".yaml"))}

    assert not [name for name, text in texts.items() if "example.com" in text]
    for name in READMES:
        assert "the-repo.example.org" in texts[name]
        assert "the-contact.example.org" in texts[name]
    assert "the-contact.example.org" in texts["PRIVACY.md"]


def test_a_repository_without_an_https_address_is_refused(copy: Path, tmp_path: Path) -> None:
    # Dify shows no picture whose address does not begin with https.
    manifest = (copy / "manifest.yaml").read_text(encoding="utf-8")
    (copy / "manifest.yaml").write_text(manifest.replace("repo: https:", "repo: http:"), encoding="utf-8")

    with pytest.raises(PackageError, match="https"):
        build(tmp_path, copy)


@pytest.mark.parametrize("name", READMES)
def test_pictures_and_links_of_a_packaged_readme_have_full_addresses(name: str, unpacked: Path) -> None:
    tokens = [
        child for token in MarkdownIt().parse((unpacked / name).read_text("utf-8")) for child in token.children or []
    ]
    pictures = [str(token.attrs["src"]) for token in tokens if token.type == "image"]
    links = [str(token.attrs["href"]) for token in tokens if token.type == "link_open"]
    repo = PLACEHOLDERS["repo"]

    assert f"{repo}/blob/HEAD/PRIVACY.md" in links
    for address in [*pictures, *links]:
        assert address.startswith(("https://", "mailto:"))
        if address.startswith(f"{repo}/"):
            kind, branch, path = address.removeprefix(f"{repo}/").split("/", 2)
            assert (kind, branch) == ("blob" if path.endswith(".md") else "raw", "HEAD")
            assert (ROOT / path).is_file()
    # A picture that does not load leaves its text.
    assert all(token.content.strip() for token in tokens if token.type == "image")


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("![a](images/b.png)", "readme/README_ja_JP.md", "![a](https://r.example/raw/HEAD/readme/images/b.png)"),
        ("[p](../PRIVACY.md)", "readme/README_ja_JP.md", "[p](https://r.example/blob/HEAD/PRIVACY.md)"),
        ("[p](./docs/a.md#b)", "README.md", "[p](https://r.example/blob/HEAD/docs/a.md#b)"),
        ("[s](../workflows/a.xlsx)", "readme/a.md", "[s](https://r.example/raw/HEAD/workflows/a.xlsx)"),
        ("[x](https://other.example/a)", "README.md", "[x](https://other.example/a)"),
        ("[x](#here) [m](mailto:a@b.example)", "README.md", "[x](#here) [m](mailto:a@b.example)"),
        ("see https://example.com/rag-evaluator/raw/HEAD/a.yml", "README.md", "see https://r.example/raw/HEAD/a.yml"),
    ],
)
def test_addresses_come_from_the_manifest(text: str, name: str, expected: str) -> None:
    assert published(text, name, {"repo": "https://r.example", "contact": "c"}) == expected


def test_a_missing_part_is_named(copy: Path, tmp_path: Path) -> None:
    (copy / "PRIVACY.md").unlink()

    with pytest.raises(PackageError, match=r"PRIVACY\.md"):
        build(tmp_path, copy)


def test_every_requirement_has_a_lower_and_an_upper_bound(unpacked: Path) -> None:
    lines = (unpacked / "requirements.txt").read_text(encoding="utf-8").splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]

    assert {requirement.name for requirement in requirements} == {
        "Jinja2",
        "chardet",
        "dify_plugin",
        "httpx",
        "itsdangerous",
        "json-repair",
        "numpy",
        "openpyxl",
        "PyYAML",
        "pydantic",
        "rapidfuzz",
        "requests",
    }
    for requirement in requirements:
        assert {specifier.operator for specifier in requirement.specifier} == {">=", "<"}


@pytest.mark.parametrize("name", ["requirements-dev.txt", "requirements-judge.txt"])
def test_what_developers_install_can_be_read(name: str) -> None:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    entries = [line for line in lines if line and not line.startswith(("#", "-"))]

    assert all(Requirement(entry).specifier for entry in entries)


def test_the_unpacked_plugin_declares_itself_and_answers(unpacked: Path, model_server: ScriptedModelServer) -> None:
    answer_with_the_reference(unpacked, model_server, sys.executable)


def answer_with_the_reference(folder: Path, model_server: ScriptedModelServer, python: str) -> None:
    """Start the plugin of a folder with a Python and call a tool that needs no model."""
    with PluginProcess(folder, DifySide(ModelServer(model_server.url)), python) as plugin:
        declared = plugin.declaration
        output = collect(
            plugin.invoke_tool(
                "reference_lookup", {"question": "受付は何時からですか？", "golden": TABLE}, app_id="app"
            )
        )

    manifest = read_manifest()
    assert {key: declared[key] for key in ("author", "name", "version", "label", "plugins")} == {
        "author": manifest["author"],
        "name": manifest["name"],
        "version": manifest["version"],
        "label": manifest["label"] | {"pt_BR": manifest["label"]["en_US"]},
        "plugins": declared["plugins"] | {"tools": ["provider/rag_evaluator.yaml"]},
    }
    assert output.variables["reference"] == "9時からです。"
    assert output.variables["found"] is True


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_its_requirements_alone_are_enough_in_a_clean_environment(
    unpacked: Path, tmp_path: Path, model_server: ScriptedModelServer
) -> None:
    venv = tmp_path / "venv"
    subprocess.run(
        [ROOT / "scripts/install", venv, unpacked / "requirements.txt"],
        check=True,
        capture_output=True,
        timeout=280,
        env=os.environ | {"PYTHON": sys.executable},
    )

    answer_with_the_reference(unpacked, model_server, str(venv / "bin/python"))
