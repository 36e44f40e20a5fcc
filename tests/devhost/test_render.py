"""The pictures of the READMEs: the replies in them, the page around them, the files."""

import re
import struct
from pathlib import Path

import pytest

from devhost import render
from devhost.daemon import PluginProcess
from devhost.reply_sample import read_sample, reply_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("language", render.LANGUAGES)
def test_a_sample_shows_a_claim_without_support_and_what_to_do_about_it(language: str, plugin: PluginProcess) -> None:
    sample = read_sample(language)
    reply = reply_of(sample, plugin)
    scores = reply.node_outputs["evaluate"]
    assert scores["status"] == "scored"
    # 2 of 3 claims, 2 of 2 parts, the relevant chunk first; the mean of .97, .93 and .88.
    assert scores["faithfulness"] == pytest.approx(2 / 3)
    assert (scores["context_recall"], scores["context_precision"]) == (1.0, 1.0)
    assert scores["answer_relevancy"] == pytest.approx(0.926667, abs=1e-6)
    assert scores["details"]["documents"]["recall_at_k"] == 1.0
    assert scores["details"]["findings"]
    claims = scores["details"]["metrics"]["faithfulness"]["claims"]
    page = render.page(sample["question"], reply.streamed, language, 390)
    [lacking] = [claim for claim in claims if claim["verdict"] == 0]
    [shown] = [line for line in page.splitlines() if line.startswith("<li>⚠️ <strong>")]
    assert lacking["text"] in shown
    assert lacking["reason"] in shown
    assert [claim["text"] in page for claim in claims] == [True, True, True]
    # Four scores and the documents.
    assert len(re.findall(r"<li>(?:✅|⚠️|❌) <strong>", page)) == 5
    assert "<table>" not in page
    assert "<blockquote>" not in page
    assert [page.count(tag) for tag in ("<hr />", "<ol>", "</details>")] == [1, 1, 1]


def test_the_page_keeps_line_ends_and_takes_html_from_the_reply_alone() -> None:
    page = render.page("1 < 2\n<b>", "one\ntwo\n\n<sub>small</sub>", "en", 390)
    assert "1 &lt; 2\n&lt;b&gt;" in page
    assert "<p>one<br />\ntwo</p>" in page
    assert "<sub>small</sub>" in page


def test_without_a_browser_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CHROMIUM", raising=False)
    with pytest.raises(render.RenderError, match="apt-get install chromium"):
        render.screenshot("<body></body>", tmp_path / "a.png", 390)


@pytest.mark.parametrize(("readme", "language"), [("README.md", "en"), ("readme/README_ja_JP.md", "ja")])
def test_a_readme_shows_its_picture(readme: str, language: str) -> None:
    name = f"readme/images/{read_sample(language)['picture']}"
    [shown] = re.findall(r"!\[[^\]]+\]\((\S+)\)", (ROOT / readme).read_text(encoding="utf-8"))
    assert (ROOT / readme).parent / shown == ROOT / name
    content = (ROOT / name).read_bytes()
    # A PNG begins with its signature and the chunk that holds width and height.
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">I", content[16:20]) == (render.PICTURE_WIDTH,)
    assert len(content) < 120_000
