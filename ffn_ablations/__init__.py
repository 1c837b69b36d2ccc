"""Ablations of the feed-forward network of small language models, as one command and from Python.

    runs = ffa.train("tiny", ffn=["gelu", MyFFN], seeds=3)    # a name, a class, a function, a partial
    runs.plot(), runs[0].loss, runs[0].model, runs[0].generate("Once")
    scores = ffa.evaluate(runs, suites="embedded-pairs")      # a data frame
    comparison = ffa.compare(runs, baseline="gelu")           # or a frame, a CSV file, {"gelu": [3.1, 3.2]}
    comparison["MyFFN"], comparison.verdicts, comparison.plot()
    ffa.variants(), ffa.suites(), ffa.check(MyFFN), ffa.ffn("kan", d_model=64), ffa.load(folder)
    ffa.swap_ffn(model, "swiglu")                             # a GPT-Neo, RoBERTa, Llama or T5

``docs/python.md`` shows more. Importing this loads nothing else: each name brings what it needs when it is
first used, and ``compare`` needs no torch.

Reading order: ``cli`` is the command and the list of all others; of these ``try_layer`` lies here.
From Python, ``flags_as_keywords`` makes a command's arguments of keywords; ``train_and_evaluate``,
``comparing`` and ``studies`` each call what the command of that name calls, and return ``runs``, data frames
and a ``Comparison``.
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
    from ffn_ablations.comparing import plan as plan
    from ffn_ablations.comparing import report as report
    from ffn_ablations.known_ffns import check as check
    from ffn_ablations.known_ffns import ffn as ffn
    from ffn_ablations.known_ffns import register as register
    from ffn_ablations.known_ffns import suites as suites
    from ffn_ablations.known_ffns import swap_ffn as swap_ffn
    from ffn_ablations.known_ffns import variants as variants
    from ffn_ablations.runs import Run as Run
    from ffn_ablations.runs import Runs as Runs
    from ffn_ablations.runs import load as load
    from ffn_ablations.runs import load_config as load_config
    from ffn_ablations.studies import Study as Study
    from ffn_ablations.studies import study as study
    from ffn_ablations.train_and_evaluate import build_model as build_model
    from ffn_ablations.train_and_evaluate import evaluate as evaluate
    from ffn_ablations.train_and_evaluate import train as train
    from ffn_variants.spec import FFNSpec as FFNSpec


def _check_packages(root: Path) -> None:
    """Refuse files of the working folder that would be imported in place of a package of this project.

    Raises:
        ImportError: Naming a file of that name, which Python would import instead.
    """
    if str(root) not in sys.path:  # an editable installation, which a folder without code would go before
        sys.path.append(str(root))
    for name in ("base", "eval", "ffn_variants", "inside", "pretrain", "report", "scores", "slurm"):
        spec = importlib.util.find_spec(name)
        if spec and spec.origin and Path(spec.origin).resolve().parent != (root / name).resolve():
            raise ImportError(
                f"{spec.origin} has the name of a package of ffn-ablations and would be imported instead; "
                "rename it",
                name=__name__,
            )


_check_packages(Path(__path__[0]).parent)
importlib.import_module("base")  # which says what is not supported, before torch fails there
try:
    __version__ = version("ffn-ablations")
except PackageNotFoundError:  # a clone on PYTHONPATH, of which nothing was installed
    __version__ = "unknown"

_MODULES = {
    "Comparison": "ffn_ablations.comparing", "compare": "ffn_ablations.comparing",
    **dict.fromkeys(("plan", "report"), "ffn_ablations.comparing"), "FFNSpec": "ffn_variants.spec",
    **dict.fromkeys(("Run", "Runs", "load", "load_config"), "ffn_ablations.runs"),
    **dict.fromkeys(("Study", "study"), "ffn_ablations.studies"),
    **dict.fromkeys(("check", "ffn", "register", "suites"), "ffn_ablations.known_ffns"),
    **dict.fromkeys(("swap_ffn", "variants"), "ffn_ablations.known_ffns"),
    **dict.fromkeys(("build_model", "evaluate", "train"), "ffn_ablations.train_and_evaluate"),
    "UsageError": "base.errors",
}  # fmt: skip
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    """Import what a name needs."""
    others = importlib.import_module("base.other_names").OtherNames
    ours = name if name in _MODULES else others("function").get(name, name)
    if ours not in _MODULES:
        errors = importlib.import_module("base.errors")
        known = errors.did_you_mean(errors.closest(name, _MODULES), f"it has {', '.join(_MODULES)}")
        elsewhere = others("no function")
        told = f"write {elsewhere[name]}" if name in elsewhere else known
        is_import = sys._getframe(1).f_code.co_name == "_handle_fromlist"  # whose own error has no cure
        if is_import and not importlib.util.find_spec(f"{__name__}.{name}"):
            raise ImportError(f"cannot import {name!r} from {__name__!r}; {told}", name=__name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; {told}")
    arguments = importlib.import_module("ffn_ablations.flags_as_keywords")
    with arguments.one_line_errors(), warnings.catch_warnings():
        # Of tqdm, which libraries of models import for notebooks; bars here need no ipywidgets.
        warnings.filterwarnings("ignore", message="IProgress not found")
        value = getattr(importlib.import_module(_MODULES[ours]), ours)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List what is offered, loaded or not."""
    return sorted([*__all__, "__version__"])
