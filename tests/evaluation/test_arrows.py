"""Imports go one way: tools to bridge to the core, and inside the core from the top downwards."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# From the top. A room imports from itself and from floors below its own: never from above, nor from its neighbours.
FLOORS = (
    {"report"},
    {"runs"},
    {"scorecard"},
    {"golden", "tuning", "diagnosis"},
    {"metrics"},
    {"judging"},
    {"statistics", "sample", "settings", "texts", "result", "storage"},
    {"reasoning", "pictures"},
    {"errors", "languages", "folding"},
)
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
# Outside the core: who may import whom of the project's own packages.
MAY_IMPORT = {
    "tools": {"bridge"},
    "endpoints": {"bridge"},
    "provider": set(),
    "bridge": {"bridge", "evaluation"},
    "evaluation": {"evaluation"},
}


def imports_of(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: a relative import hides where it goes"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules(package: str) -> list[Path]:
    found = sorted((ROOT / package).rglob("*.py"))
    assert found
    return found


def test_each_room_has_its_floor() -> None:
    entries = (ROOT / "evaluation").iterdir()
    rooms = {path.stem for path in entries if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert rooms - {"__init__"} <= FLOOR_OF.keys()


def test_inside_the_core_imports_go_downwards() -> None:
    wrong = []
    for file in modules("evaluation"):
        room = file.relative_to(ROOT / "evaluation").parts[0].removesuffix(".py")
        for name in imports_of(file):
            package, _, rest = name.partition(".")
            other = rest.partition(".")[0]
            if package == "evaluation" and other != room and FLOOR_OF[other] <= FLOOR_OF[room]:
                wrong.append(f"{file.relative_to(ROOT)} imports {name}")
    assert wrong == []


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_inwards_only(package: str) -> None:
    own = {"main", "tools", "provider", "bridge", "evaluation", "devhost", "tests", "benchmarks"}
    wrong = [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in modules(package)
        for name in imports_of(file)
        if name.partition(".")[0] in own - MAY_IMPORT[package]
    ]
    assert wrong == []


def test_the_check_sees_imports() -> None:
    assert "evaluation.runs.records.RowRecord" in imports_of(ROOT / "evaluation/report/page_rows.py")
