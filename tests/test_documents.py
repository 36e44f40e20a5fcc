"""The texts around the plugin: READMEs, changelog, CONTRIBUTING."""

import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from devhost.marketplace import CJK, README_WORDS, outside_fences
from devhost.package import PLACEHOLDERS
from tests.test_metadata import MANIFEST, ROOT, TOOLS


def test_the_changelogs_newest_version_is_the_manifests() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)

    assert headings[0] == MANIFEST["version"]


def test_the_readme_is_english_and_under_500_words() -> None:
    text = outside_fences((ROOT / "README.md").read_text(encoding="utf-8"))

    assert not CJK.search(text)
    assert len(text.split()) < README_WORDS


@pytest.mark.parametrize("path", ["README.md", "readme/README_ja_JP.md", "readme/README_zh_Hans.md"])
def test_every_readme_names_source_contact_and_only_what_exists(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    tokens = [child for token in MarkdownIt().parse(text) for child in token.children or []]
    targets = [str(token.attrs.get("href") or token.attrs.get("src") or "") for token in tokens]
    local = [target for target in targets if target and "://" not in target and "@" not in target]

    assert all(placeholder in text for placeholder in PLACEHOLDERS.values())
    assert local
    assert all(((ROOT / path).parent / target).is_file() for target in local)
    # What the variable picker shows, and what it was called before.
    assert "`query`" in text
    assert "`sys.query`" in text
    # The addresses to import from: every template in the README's language, Japanese or else English.
    addresses = re.findall(rf"^{PLACEHOLDERS['repo']}/raw/HEAD/(workflows/\S+)$", text, re.MULTILINE)
    japanese = path.endswith("ja_JP.md")
    templates = {f"workflows/{file.name}" for file in (ROOT / "workflows").glob("*.yml")}
    assert set(addresses) == {name for name in templates if name.endswith("_en.yml") != japanese}
    # The same tools under the same names as in Studio, and the same Dify version as in the manifest.
    language = {"README_ja_JP": "ja_JP", "README_zh_Hans": "zh_Hans"}.get(Path(path).stem, "en_US")
    assert all(tool["identity"]["label"][language] in text for tool in TOOLS.values())
    assert f"Dify {MANIFEST['meta']['minimum_dify_version'].removesuffix('.0')} " in text


def code(markdown: str) -> list[str]:
    """The code spans of a Markdown text and the lines of its fences."""
    tokens = [
        child for token in MarkdownIt().enable("table").parse(markdown) for child in [token, *(token.children or [])]
    ]
    spans = [token.content for token in tokens if token.type == "code_inline"]
    return spans + [line for token in tokens if token.type == "fence" for line in token.content.splitlines()]


def test_contributing_names_every_make_command_and_no_other() -> None:
    commands = [line.split("#")[0].split() for line in code((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))]
    named = {
        word for words in commands if words[:1] == ["make"] for word in words[1:] if re.fullmatch(r"[a-z-]+", word)
    }

    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert named == set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))


def test_the_paths_in_contributing_exist() -> None:
    spans = code((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    paths = [span for span in spans if re.fullmatch(r"[\w./-]*(\w/|\w\.\w+|\.difyignore)", span)]

    assert {"tools/", "evaluation/metrics/scoring.py", ".difyignore"} <= set(paths)
    assert [path for path in paths if not (ROOT / path).exists()] == []
