"""What training, evaluation, fine-tuning and scoring ask of a GPU, on a device that only pretends.

No GPU takes part: tensors are fake, and so nothing is said of results or of time. Cases run in processes of
their own, a group at a time, whose figures all workers share. ``budgets.yaml`` says what is allowed.
"""

import functools
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from filelock import FileLock

from base.families import FAMILIES
from benchmarks.gpu import pretend
from ffn_variants import FFN_VARIANTS

pytestmark = [
    pytest.mark.skipif(pretend.why_not() is not None, reason=str(pretend.why_not())),
    pytest.mark.skipif(
        pretend.is_built_for_cuda(), reason="torch's wheel for CUDA pins memory by the driver"
    ),
]

BUDGETS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("budgets.yaml").read_text(encoding="utf-8"))
NUMBERS = ("launches", "copies", "megabytes", "peak_mib")
NOTHING = ("blocking", "waits", "on_host", "float32_products", "squares", "differs")
OFTEN = ("gelu", "kan", "spline-kan", "gr-kan")
"""Variants of all kinds of kernels: plain, basis_linear, gather and scatter, elementwise with sums."""
WORKLOADS = ("update", "evaluation", "finetuning", "scoring")
LONG = ("gpt_neo wav-kan", "gpt_neo mlp-edge")
"""Shipped configurations of thousands of launches."""
GROUP_LIMIT_S = 600

Ask = dict[str, Any]


def _cases() -> dict[str, tuple[str, Ask]]:
    """Group and what is asked of each case by name: those of the group ``ci`` are, all others are slow."""
    cases: dict[str, tuple[str, Ask]] = {}
    for family, variant, fused, workload in itertools.product(
        FAMILIES, FFN_VARIANTS, (True, False), WORKLOADS
    ):
        case = {"family": family, "variant": variant, "fused": fused}
        name = f"{workload}-{family}-{variant}-{'fused' if fused else 'eager'}"
        cases[name] = _group(workload, family, variant, fused), {"workload": workload, "case": case}
    for name in BUDGETS["shipped"]:
        family, variant = name.split()
        case = {"family": family, "variant": variant, "rows": 112, "shipped": True}
        ask = {"workload": "update", "case": case}
        cases[f"shipped-{family}-{variant}"] = "shipped" if name in LONG else "ci", ask
    return cases


def _group(workload: str, family: str, variant: str, fused: bool) -> str:
    """What families and workloads ask for hardly depends on the variant; so most variants are slow ones."""
    is_sample = fused and variant == "kan"
    is_often = family == "gpt_neo" and variant in OFTEN
    return "ci" if workload == "update" and (is_sample or is_often) else f"{family}-{workload}"


CASES = _cases()


def _parameters(*beginnings: str) -> list[Any]:
    return [
        pytest.param(name, id=name, marks=pytest.mark.ci if group == "ci" else pytest.mark.slow)
        for name, (group, _) in CASES.items()
        if name.startswith(beginnings)
    ]


@pytest.fixture(scope="session")
def figures_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """From the name of a case to its figures; one worker runs its group, the others wait for it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "pretend_cuda"
    folder.mkdir(exist_ok=True)

    @functools.cache
    def group_of(group: str) -> dict[str, Any]:
        asks = {name: ask for name, (own, ask) in CASES.items() if own == group}
        with FileLock(folder / f"{group}.lock"):
            found = folder / f"{group}.json"
            if not found.exists():
                with FileLock(folder / "library.lock"):
                    library = pretend.build(folder)
                found.write_text(_run(library, asks), encoding="utf-8")
            return json.loads(found.read_text(encoding="utf-8"))

    return lambda name: group_of(CASES[name][0])[name]


def _run(library: Path, asks: dict[str, Ask]) -> str:
    command = [sys.executable, "-m", "tests.pretend_cuda.run", str(library)]
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "CUDA_VISIBLE_DEVICES": ""}
    ended = subprocess.run(
        command,
        input=json.dumps(asks),
        capture_output=True,
        text=True,
        timeout=GROUP_LIMIT_S,
        cwd=root,
        env=environment,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return ended.stdout


def _budget(name: str) -> dict[str, Any]:
    """What a case may ask for: the numbers of its workload and family, and what is allowed besides."""
    kind, family, *rest = name.split("-")
    if kind == "shipped":
        return BUDGETS["shipped"][f"{family} {'-'.join(rest)}"]
    numbers = BUDGETS["small"][kind][family]
    if rest[-1] == "eager":
        numbers = numbers | BUDGETS["eager"].get("-".join(rest[:-1]), {})
    return {key: value[rest[-1]] if isinstance(value, dict) else value for key, value in numbers.items()}


def problems(name: str, figures: dict[str, Any]) -> dict[str, str]:
    """What is wrong with the figures of a case, by check."""
    if "error" in figures:
        return {"error": figures["error"] + "\n" + "\n".join(figures["trace"][-25:])}
    budget, found = _budget(name), {}
    for key in NUMBERS:
        if key in budget and figures[key] > budget[key]:
            found[key] = f"{figures[key]} is over the budget of {budget[key]} (budgets.yaml)"
    for key in NOTHING:
        allowed = _allowed(name).get(key, [])
        left = {what: n for what, n in figures[key].items() if not any(part in what for part in allowed)}
        if left:
            found[key] = "; ".join(f"{what}: {n}" for what, n in left.items())
    return found


def _allowed(name: str) -> dict[str, list[str]]:
    """Parts of what a check of NOTHING names, where it allows some."""
    kind, family, *rest = name.split("-")
    kind = "update" if kind == "shipped" else kind
    found: dict[str, list[str]] = {}
    for place in (kind, f"{kind} {family}", "variant " + "-".join(rest[:-1])):
        for check, parts in BUDGETS["allowed"].get(place, {}).items():
            found[check] = found.get(check, []) + parts
    return found


@pytest.mark.parametrize("name", _parameters(*WORKLOADS, "shipped"))
def test_it_asks_no_more_of_a_gpu_than_is_allowed(
    name: str, figures_of: Callable[[str], dict[str, Any]]
) -> None:
    wrong = problems(name, figures_of(name))
    assert not wrong, "\n".join(f"{check}: {text}" for check, text in wrong.items())


@pytest.mark.parametrize("name", _parameters("shipped"))
def test_budgets_are_near_what_is_needed(name: str, figures_of: Callable[[str], dict[str, Any]]) -> None:
    figures, budget = figures_of(name), _budget(name)
    loose = {key: figures[key] for key in NUMBERS if key in budget and figures[key] < 0.7 * budget[key]}
    assert not loose, f"lower the budget in budgets.yaml: {name} needs {loose}"
