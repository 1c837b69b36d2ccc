"""Where this project's code comes from: one place, or a command says so."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path

PACKAGES = ("base", "ffn_variants", "pretrain", "eval", "slurm", "ffn_ablations")
"""This project's packages."""
RUNNING = "the file that runs"


def code_roots() -> dict[str, Path]:
    """Return the folders that hold the file that runs, where it is this project's, and each of the packages.

    An import is not needed: what a package would be imported from is looked up.
    """
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    running = _checkout_of(Path(main).resolve()) if main else None
    found = {name: folder for name in PACKAGES if (folder := _folder_of(name))}
    return ({RUNNING: running} if running else {}) | found


def mixed_code(roots: Mapping[str, Path]) -> str | None:
    """Say in one line that code of several places is mixed; None where it is of one."""
    if len(set(roots.values())) < 2:
        return None
    named: dict[Path, list[str]] = {}
    for name, root in roots.items():
        named.setdefault(root, []).append(name)
    said = [f"{', '.join(names)} {_verb(names)} in {root}" for root, names in named.items()]
    first = next(iter(roots.values()))
    return (
        f"code of several places is mixed: {'; '.join(said)}; for one of them, set PYTHONPATH={first} or "
        f"install it: pip install -e {first}"
    )


def _verb(names: list[str]) -> str:
    return "lies" if len(names) == 1 else "lie"


def _checkout_of(file: Path) -> Path | None:
    """The folder with all packages that a file of one of them lies in."""
    for folder in file.parents:
        if all((folder / name / "__init__.py").is_file() for name in PACKAGES):
            return folder if file.relative_to(folder).parts[0] in PACKAGES else None
    return None


def _folder_of(package: str) -> Path | None:
    """The folder that a package lies in."""
    if package in sys.modules:
        file = sys.modules[package].__file__
    else:
        spec = importlib.util.find_spec(package)
        file = spec.origin if spec else None
    if not file:
        return None
    inside = Path(file).resolve().parent
    return inside.parent
