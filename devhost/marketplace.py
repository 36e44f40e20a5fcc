"""Checks a package by the rules of Dify's marketplace: `python -m devhost.marketplace [PACKAGE] [--install]`.

Without PACKAGE it builds one first. It prints every violation and exits with 1 if there is one. With --install it also
does what the marketplace's install test does: the requirements alone in a clean environment, then the plugin must be
serving within 20 seconds.
"""

import argparse
import ast
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from markdown_it import MarkdownIt
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from devhost.package import MAX_BYTES, PLACEHOLDERS, ROOT, build

README_WORDS = 500
LABEL_CHARACTERS = 1024
SERVING_SECONDS = 20
OLDEST_SDK = "0.9.0"
# What the marketplace sorts plugins by.
TAGS = frozenset(
    (
        *("agent", "business", "design", "education", "entertainment", "finance", "image", "medical", "news", "other"),
        *("productivity", "rag", "search", "social", "travel", "trigger", "utilities", "videos", "weather"),
    )
)
CJK = re.compile(r"[\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
LEFTOVER = re.compile(r"(^|/)(\.[^/]+|__pycache__|tests?|node_modules|venv|pyproject\.toml|uv\.lock)(/|$)|\.(pyc|log)$")
# What the security scan looks for in .py files, line by line.
FORBIDDEN = re.compile(r"\bopen\(|compile\(|\beval\(|\bexec\(|importlib|\.execute\(|SELECT\b.*\bFROM\b", re.IGNORECASE)
SECRET = re.compile(
    r"\bsk-[A-Za-z0-9_-]{16,}|\bAKIA[0-9A-Z]{16}|\bgh[pousr]_[A-Za-z0-9]{30,}|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|\b(?:dataset|app)-[A-Za-z0-9]{20,}"
)
HTTP_LIBRARIES = frozenset({"requests", "httpx"})
HTTP_CALLS = frozenset({"get", "post", "put", "patch", "delete", "head", "options", "request", "stream"})


@dataclass(frozen=True)
class Package:
    """A package's files by their paths."""

    path: Path
    files: Mapping[str, bytes]

    @classmethod
    def read(cls, path: Path) -> "Package":
        """Read a .difypkg."""
        with zipfile.ZipFile(path) as archive:
            return cls(path, {name: archive.read(name) for name in archive.namelist()})

    def text(self, name: str) -> str:
        """A file's text, "" without the file."""
        return self.files.get(name, b"").decode()

    def named(self, *endings: str) -> list[str]:
        """The paths that end so."""
        return [name for name in self.files if name.endswith(endings)]

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The manifest, {} without one."""
        return yaml.safe_load(self.text("manifest.yaml")) or {}


type Rule = Callable[[Package], Iterator[str]]


def size(package: Package) -> Iterator[str]:
    if package.path.stat().st_size > MAX_BYTES:
        yield f"over {MAX_BYTES // 1024**2} MB"


def identity(package: Package) -> Iterator[str]:
    manifest = package.manifest
    for field, pattern in {"author": "[a-z0-9_-]{1,64}", "name": "[a-z0-9_-]{1,128}"}.items():
        if not re.fullmatch(pattern, str(manifest.get(field, ""))):
            yield f"{field} is not {pattern}"
    yield from (f"author contains {word}" for word in ("dify", "langgenius") if word in str(manifest.get("author")))
    for field in ("label", "description"):
        if not (manifest.get(field) or {}).get("en_US"):
            yield f"{field}.en_US is missing"
    meta = manifest.get("meta") or {}
    if not (meta.get("version") and meta.get("runner") and set(meta.get("arch") or ()) == {"amd64", "arm64"}):
        yield "meta needs version, runner and arch [amd64, arm64]"
    if (meta.get("runner") or {}).get("version") != "3.12":
        yield "meta.runner.version is not 3.12"
    if not (manifest.get("resource") or {}).get("memory"):
        yield "resource.memory is missing"
    if not str(manifest.get("repo", "")).startswith("https://"):
        yield "repo is no https address"
    if not manifest.get("contact"):
        yield "contact is missing"
    tags = set(manifest.get("tags") or ())
    if not tags or tags - TAGS:
        yield f"tags are not from the list: {', '.join(sorted(tags - TAGS)) or 'none'}"


def named_files(package: Package) -> Iterator[str]:
    """What the manifest names must be in the package."""
    manifest = package.manifest
    wanted = [f"_assets/{manifest[icon]}" for icon in ("icon", "icon_dark") if icon in manifest]
    wanted += [str(manifest.get("privacy", "PRIVACY.md")), "README.md", "requirements.txt"]
    wanted.append(f"{manifest.get('meta', {}).get('runner', {}).get('entrypoint', 'main')}.py")
    wanted += [path for paths in (manifest.get("plugins") or {}).values() for path in paths]
    yield from (f"{name} is missing" for name in wanted if not package.files.get(name))
    if "icon" not in manifest:
        yield "icon is missing"


def labels(package: Package) -> Iterator[str]:
    """Every label and description: English there, none too long."""
    for name in package.named(".yaml"):
        for place, texts in _translations(yaml.safe_load(package.text(name)), name):
            if not texts.get("en_US"):
                yield f"{place}: en_US is missing"
            for language, text in texts.items():
                if len(str(text)) >= LABEL_CHARACTERS:
                    yield f"{place}.{language}: {LABEL_CHARACTERS} characters or more"


def _translations(node: Any, place: str) -> Iterator[tuple[str, dict[str, str]]]:
    if isinstance(node, dict):
        if {"en_US", "ja_JP", "zh_Hans", "pt_BR"} & set(node):
            yield place, node
        for key, value in node.items():
            yield from _translations(value, f"{place}.{key}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _translations(value, f"{place}[{index}]")


def readme(package: Package) -> Iterator[str]:
    text = package.text("README.md")
    prose = outside_fences(text)
    if CJK.search(prose):
        yield "README.md has characters that are not English"
    if len(prose.split()) >= README_WORDS:
        yield f"README.md has {README_WORDS} words or more"
    if str(package.manifest.get("repo")) not in text:
        yield "README.md does not name the source repository"
    for name in package.named(".md"):
        for link in re.findall(r"\]\(([^)\s]+)\)", package.text(name)):
            if not link.startswith(("https://", "mailto:", "#")):
                yield f"{name}: {link} is no full address"


def outside_fences(markdown: str) -> str:
    """A Markdown text without its code fences."""
    lines = markdown.splitlines()
    for token in MarkdownIt("commonmark").parse(markdown):
        if token.type in {"fence", "code_block"} and token.map:
            lines[slice(*token.map)] = [""] * (token.map[1] - token.map[0])
    return "\n".join(lines)


def privacy(package: Package) -> Iterator[str]:
    text = package.text("PRIVACY.md").casefold()
    yield from (
        f"PRIVACY.md does not say what is {word}" for word in ("collected", "stored", "sent") if word not in text
    )


def leftovers(package: Package) -> Iterator[str]:
    yield from (f"{name} does not belong into a package" for name in package.files if LEFTOVER.search(name))


def secrets(package: Package) -> Iterator[str]:
    for name in package.files:
        if SECRET.search(package.files[name].decode(errors="replace")):
            yield f"{name} has what looks like a key"


def security_scan(package: Package) -> Iterator[str]:
    for name in package.named(".py"):
        for line in package.text(name).splitlines():
            if FORBIDDEN.search(line):
                yield f"{name}: {line.strip()}"


def timeouts(package: Package) -> Iterator[str]:
    """Every request over HTTP has a limit of its own."""
    for name in package.named(".py"):
        for node in ast.walk(ast.parse(package.text(name))):
            if _requests(node) and not any(word.arg in {"timeout", None} for word in node.keywords):  # type: ignore[attr-defined]
                yield f"{name}:{node.lineno}: a request without timeout"  # type: ignore[attr-defined]


def _requests(node: ast.AST) -> bool:
    """Whether a node calls an HTTP library's function, such as requests.get(…)."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=library), attr=name)):
            return library in HTTP_LIBRARIES and name in HTTP_CALLS
    return False


def requirements(package: Package) -> Iterator[str]:
    lines = [line.strip() for line in package.text("requirements.txt").splitlines()]
    found = {requirement.name: requirement.specifier for requirement in map(Requirement, filter(_is_entry, lines))}
    yield from (f"{name} has no version" for name, versions in found.items() if not versions)
    sdk = found.get("dify_plugin", SpecifierSet())
    lowest = [Version(each.version) for each in sdk if each.operator in {">=", "==", "~="}]
    if not lowest or max(lowest) < Version(OLDEST_SDK) or not any(each.operator in {"<", "==", "~="} for each in sdk):
        yield f"dify_plugin must be at least {OLDEST_SDK}, with an upper bound"


def _is_entry(line: str) -> bool:
    return bool(line) and not line.startswith("#")


RULES: tuple[Rule, ...] = (
    *(size, identity, named_files, labels, readme, privacy),
    *(leftovers, secrets, security_scan, timeouts, requirements),
)


def violations(package: Package) -> list[str]:
    """What the marketplace would refuse, a line each."""
    return [f"{rule.__name__}: {found}" for rule in RULES for found in rule(package)]


def seconds_to_serve(folder: Path, python: str, limit: float = SERVING_SECONDS) -> float | None:
    """How long the plugin in `folder` takes to say that it is serving, None when it does not within the limit."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    kept = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "PYTHONHOME"}}
    settings = {"INSTALL_METHOD": "serverless", "SERVERLESS_HOST": "127.0.0.1", "SERVERLESS_PORT": str(port)}
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            [python, "-m", "main"],
            cwd=folder,
            env=kept | settings,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            while time.monotonic() - started < limit and process.poll() is None:
                output.seek(0)
                if "Serving Flask app" in output.read():
                    return time.monotonic() - started
                time.sleep(0.05)
        finally:
            process.kill()
            process.wait(10)
    return None


def installs(package: Package) -> Iterator[str]:
    """The marketplace's install test; takes as long as the requirements take to install."""
    with tempfile.TemporaryDirectory() as folder:
        plugin, venv = Path(folder, "plugin"), Path(folder, "venv")
        with zipfile.ZipFile(package.path) as archive:
            archive.extractall(plugin)
        command = [str(ROOT / "scripts/install"), str(venv), str(plugin / "requirements.txt")]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHON": sys.executable}
        )
        if done.returncode:
            yield f"installs: the requirements can't be installed: {done.stderr[-500:]}"
        elif seconds_to_serve(plugin, str(venv / "bin/python")) is None:
            yield f"installs: not serving within {SERVING_SECONDS} seconds"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Checks a package by the rules of Dify's marketplace.")
    parser.add_argument("package", type=Path, nargs="?", help="a .difypkg; it is built into dist/ when not given")
    parser.add_argument("--install", action="store_true", help="also install it in a clean environment and start it")
    options = parser.parse_args(arguments)
    package = Package.read(options.package or build(ROOT / "dist"))
    found = violations(package)
    if options.install:
        found += installs(package)
    print("\n".join(found) or f"{package.path.name}: {len(RULES) + options.install} rules, nothing to complain of")
    if open_fields := [field for field, value in PLACEHOLDERS.items() if package.manifest.get(field) == value]:
        print(f"Before it is published: {' and '.join(open_fields)} in manifest.yaml are placeholders.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
