"""Packs the plugin as Dify installs it: `python -m devhost.package [FOLDER]` writes FOLDER/<name>-<version>.difypkg.

It also writes the templates, which name the published plugin.
"""

import argparse
import posixpath
import re
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pathspec
import yaml

from devhost import templates

ROOT = Path(__file__).parent.parent
MAX_BYTES = 50 * 1024 * 1024
# All that stands at the package's top: anything else there was left behind by somebody and is refused.
PARTS = frozenset(
    {
        *("manifest.yaml", "main.py", "requirements.txt", "README.md", "PRIVACY.md", "LICENSE"),
        *("_assets", "bridge", "endpoints", "evaluation", "group", "provider", "readme", "tools"),
    }
)
# The texts name these two until a publisher puts real ones into manifest.yaml.
PLACEHOLDERS = {"repo": "https://example.com/rag-evaluator", "contact": "rag-evaluator@example.com"}
# A Markdown link or picture: its mark, its text and its target.
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
# The earliest date that a zip can hold: the same content gives the same bytes on every day.
TIMESTAMP = (1980, 1, 1, 0, 0, 0)
UNIX = 3


class PackageError(Exception):
    """The folder cannot be packed; the text says why."""


def read_manifest(root: Path = ROOT) -> dict[str, Any]:
    """The plugin's manifest."""
    manifest = yaml.safe_load((root / "manifest.yaml").read_text(encoding="utf-8"))
    if not isinstance(manifest, dict):
        raise PackageError("manifest.yaml holds no mapping.")
    return manifest


def packed_files(root: Path = ROOT) -> list[str]:
    """Paths below root that .difyignore leaves in, with forward slashes, sorted."""
    ignored = pathspec.GitIgnoreSpec.from_lines((root / ".difyignore").read_text(encoding="utf-8").splitlines())
    # The top level first, so that .venv and the like are not walked through.
    kept = [entry for entry in root.iterdir() if not ignored.match_file(entry.name + "/" * entry.is_dir())]
    paths = [path for entry in kept for path in (entry.rglob("*") if entry.is_dir() else [entry]) if path.is_file()]
    names = [path.relative_to(root).as_posix() for path in paths]
    return sorted(name for name in names if not ignored.match_file(name))


def build(folder: Path, root: Path = ROOT) -> Path:
    """Pack root into folder.

    The same files give the same bytes.

    Returns:
        The package's path.

    Raises:
        PackageError: a part is missing or one too many, the repository has no https address, or the package is over
            Dify's 50 MB.
    """
    manifest = read_manifest(root)
    files = packed_files(root)
    _check(files, manifest)
    folder.mkdir(parents=True, exist_ok=True)
    package = folder / f"{manifest['name']}-{manifest['version']}.difypkg"
    with zipfile.ZipFile(package, "w") as archive:
        for name in files:
            entry = zipfile.ZipInfo(name, TIMESTAMP)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = UNIX
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, _content(root, name, manifest))
    if package.stat().st_size > MAX_BYTES:
        raise PackageError(f"{package} is over {MAX_BYTES // 1024**2} MB; Dify refuses it.")
    return package


def _check(files: list[str], manifest: Mapping[str, Any]) -> None:
    found = {name.split("/")[0] for name in files}
    icons = {f"_assets/{manifest[icon]}" for icon in ("icon", "icon_dark")}
    if missing := [*sorted(PARTS - found), *sorted(icons - set(files))]:
        raise PackageError(f"Missing in the package: {', '.join(missing)}.")
    if extra := sorted(found - PARTS):
        raise PackageError(f"Not part of the plugin: {', '.join(extra)}. Remove it, or name it in .difyignore.")
    if not str(manifest["repo"]).startswith("https://"):
        raise PackageError("The repo in manifest.yaml must be an address that begins with https://.")


def _content(root: Path, name: str, manifest: Mapping[str, Any]) -> bytes:
    """A file as it goes into the package: texts name the publisher's repository and contact."""
    content = (root / name).read_bytes()
    return published(content.decode(), name, manifest).encode() if name.endswith(".md") else content


def published(text: str, name: str, manifest: Mapping[str, Any]) -> str:
    """A Markdown text as the package holds it.

    Dify shows a plugin's README without the files around it, and no picture but by its full https address.

    Args:
        text: Markdown with paths relative to its own file.
        name: the file's path in the repository.
        manifest: its `repo` and `contact` are put in the place of the placeholders, and before every relative path.
    """

    def absolute(link: re.Match[str]) -> str:
        mark, label, target = link.groups()
        if ":" in target or target.startswith("#"):
            return link[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        # Texts are read on the repository's pages, everything else is shown or downloaded.
        kind = "blob" if path.partition("#")[0].endswith(".md") else "raw"
        return f"{mark}[{label}]({PLACEHOLDERS['repo']}/{kind}/HEAD/{path})"

    text = LINK.sub(absolute, text)
    for field, placeholder in PLACEHOLDERS.items():
        text = text.replace(placeholder, str(manifest[field]))
    return text


def main() -> int:
    """Pack the repository and say what came of it."""
    parser = argparse.ArgumentParser(description="Packs the plugin as Dify installs it.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist")
    try:
        package = build(parser.parse_args().folder)
        templates.write()
    except (PackageError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{package}  {package.stat().st_size / 1024:.0f} kB")
    manifest = read_manifest()
    if open_fields := [field for field, value in PLACEHOLDERS.items() if manifest[field] == value]:
        print(f"To publish it, replace {' and '.join(open_fields)} in manifest.yaml (placeholders on example.com).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
