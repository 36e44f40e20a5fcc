"""Packs the plugin as Dify installs it: `python -m devhost.package [FOLDER]` writes FOLDER/<name>-<version>.difypkg."""

import argparse
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pathspec
import yaml

ROOT = Path(__file__).parent.parent
MAX_BYTES = 50 * 1024 * 1024
REQUIRED = ("manifest.yaml", "main.py", "requirements.txt", "README.md", "PRIVACY.md", "LICENSE")
# The texts name these two until a publisher puts real ones into manifest.yaml.
PLACEHOLDERS = {"repo": "https://example.com/rag-evaluator", "contact": "rag-evaluator@example.com"}
# The earliest date that a zip can hold: the same content gives the same bytes on every day.
TIMESTAMP = (1980, 1, 1, 0, 0, 0)


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
        PackageError: a file that every package needs is missing, or the package is over Dify's 50 MB.
    """
    manifest = read_manifest(root)
    files = packed_files(root)
    needed = [*REQUIRED, f"_assets/{manifest['icon']}", f"_assets/{manifest['icon_dark']}"]
    if missing := [name for name in needed if name not in files]:
        raise PackageError(f"Missing in the package: {', '.join(missing)}.")
    folder.mkdir(parents=True, exist_ok=True)
    package = folder / f"{manifest['name']}-{manifest['version']}.difypkg"
    with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in files:
            entry = zipfile.ZipInfo(name, TIMESTAMP)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, _content(root / name, manifest))
    if package.stat().st_size > MAX_BYTES:
        raise PackageError(f"{package} is over {MAX_BYTES // 1024**2} MB; Dify refuses it.")
    return package


def _content(file: Path, manifest: Mapping[str, Any]) -> bytes:
    content = file.read_bytes()
    if file.suffix == ".md":
        for field, placeholder in PLACEHOLDERS.items():
            content = content.replace(placeholder.encode(), str(manifest[field]).encode())
    return content


def main() -> int:
    """Pack the repository and say what came of it."""
    parser = argparse.ArgumentParser(description="Packs the plugin as Dify installs it.")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist")
    try:
        package = build(parser.parse_args().folder)
    except PackageError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{package}  {package.stat().st_size / 1024:.0f} kB")
    manifest = read_manifest()
    if open_fields := [field for field, value in PLACEHOLDERS.items() if manifest[field] == value]:
        print(f"To publish it, replace {' and '.join(open_fields)} in manifest.yaml (placeholders on example.com).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
