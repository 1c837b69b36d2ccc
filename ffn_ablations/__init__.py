"""Ablations of the feed-forward network of small language models, as one command and from Python.

``docs/python.md`` shows how it is used. Importing this loads nothing else: each name brings what it needs
when it is first used, and ``compare`` needs no torch.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from base.errors import UsageError as UsageError
    from ffn_ablations.comparing import Comparison as Comparison
    from ffn_ablations.comparing import compare as compare
    from ffn_ablations.evaluating import evaluate as evaluate
    from ffn_ablations.runs import Run as Run
    from ffn_ablations.runs import Runs as Runs
    from ffn_ablations.studies import Study as Study
    from ffn_ablations.studies import study as study
    from ffn_ablations.training import train as train
    from ffn_variants.swap import swap_ffn as swap_ffn


def _find_own(root: Path) -> None:
    """See to it that files and folders of the folder one works in are not taken for packages of this project.

    Raises:
        ImportError: Naming a file of that name, which Python would import instead.
    """
    if str(root) not in sys.path:  # an editable installation, which a folder without code would go before
        sys.path.append(str(root))
    for name in ("base", "eval", "ffn_variants", "inside", "pretrain", "report", "scores", "slurm"):
        found = importlib.util.find_spec(name)
        if found and found.origin and Path(found.origin).resolve().parent != (root / name).resolve():
            raise ImportError(
                f"{found.origin} has the name of a package of ffn-ablations and would be imported instead; "
                "rename it",
                name=__name__,
            )


_find_own(Path(__path__[0]).parent)
try:
    __version__ = version("ffn-ablations")
except PackageNotFoundError:  # a clone on PYTHONPATH, of which nothing was installed
    __version__ = "unknown"

__all__ = [
    "Comparison",
    "Run",
    "Runs",
    "Study",
    "UsageError",
    "compare",
    "evaluate",
    "study",
    "swap_ffn",
    "train",
]

_MODULES = {
    "Comparison": "ffn_ablations.comparing",
    "Run": "ffn_ablations.runs",
    "Runs": "ffn_ablations.runs",
    "Study": "ffn_ablations.studies",
    "UsageError": "base.errors",
    "compare": "ffn_ablations.comparing",
    "evaluate": "ffn_ablations.evaluating",
    "study": "ffn_ablations.studies",
    "swap_ffn": "ffn_variants.swap",
    "train": "ffn_ablations.training",
}


def __getattr__(name: str) -> Any:
    """Import what a name needs."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    errors = importlib.import_module("ffn_ablations.errors")
    with errors.told(), warnings.catch_warnings():
        # Of tqdm, which libraries of models import for notebooks; bars here need no ipywidgets.
        warnings.filterwarnings("ignore", message="IProgress not found")
        found = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """List what there is, loaded or not."""
    return sorted({*globals(), *__all__})
