"""Print the lowest versions that pyproject.toml allows, as constraints for pip: ``make test-lowest``."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def lowest(project: dict) -> list[str]:
    """Return a line such as ``numpy==2.0`` for each package that users need; tools of developers are free."""
    lines = [*project["dependencies"], *project["optional-dependencies"]["torch"]]
    return [line.replace(">=", "==") for line in lines]


if __name__ == "__main__":
    print("\n".join(lowest(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"])))
