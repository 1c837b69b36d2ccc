"""``ffn-ablations check path/to/mine.py:SPEC``: whether a variant does what every variant must."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence

from base.command_line import Positional, parse_flags
from base.errors import first_line
from base.sections import Section
from ffn_variants.check.ffn import FFN_CHECKS, CheckError, D, F, Options
from ffn_variants.check.model import MODEL_CHECKS
from ffn_variants.files import load_variant, names_file, variant_file
from ffn_variants.registry import get_variant

DESCRIPTION = """Check a feed-forward variant: gradients, shapes, dtypes, saving and loading, training.

Each check is a line. What fails is said in a sentence with what to do, and the exit status is then 1.

Examples:
  ffn-ablations check path/to/mine.py:SPEC
  ffn-ablations check path/to/mine.py:SPEC --ffn-options init 0.5
  ffn-ablations check kan"""


BUILD_ONLY = ("meta device", "initial weights", "all other weights paired", "equal budgets")
"""Checks that run no network; all others need the one of shapes, the first, to pass."""


class CheckArgs(Section):
    """What ``ffn-ablations check`` is given."""

    variant: Positional[str]
    """A file and the name of the FFNSpec in it, path/to/mine.py:SPEC; or a name that is registered."""
    ffn_options: dict[str, int | float | bool | str] | None = None
    """Options of the variant, for example `init 0.5`."""


def main(args: Sequence[str] | None = None) -> int:
    """Run every check; returns 1 where one failed."""
    asked = parse_flags(CheckArgs, args, prog="ffn-ablations check", description=DESCRIPTION)
    spec = load_variant(asked.variant) if names_file(asked.variant) else get_variant(asked.variant)
    options = dict(asked.ffn_options or {})
    spec.num_params(D, F, **options)  # options that do not fit are a mistake of whoever typed them
    print(f"{spec.name}: {spec.formula} ({spec.reference})")
    checks = {**FFN_CHECKS, **MODEL_CHECKS}
    first, *others = checks
    passed = {first: _passes(first, checks[first], spec.name, options)}
    for label in others:
        if passed[first] or label in BUILD_ONLY:
            passed[label] = _passes(label, checks[label], spec.name, options)
        else:
            print(f"skipped {label}", flush=True)
    skipped = len(checks) - len(passed)
    until = f"; {skipped} skipped until {first} is right" if skipped else ""
    print(f"{sum(passed.values())} of {len(checks)} checks passed{until}")
    return 0 if all(passed.values()) else 1


def _passes(label: str, check: Callable[[str, Options], None], name: str, options: Options) -> bool:
    """Run a check, and print its line."""
    try:
        check(name, options)
    except CheckError as error:
        wrong = str(error)
    except Exception as error:  # the variant's own code
        wrong = f"{_place(name, error)}{type(error).__name__}: {first_line(error)}"
    else:
        print(f"ok      {label}", flush=True)
        return True
    print(f"FAILED  {label}: {wrong}", flush=True)
    return False


def _place(name: str, error: Exception) -> str:
    """The line of the user's file that an error came from."""
    file = variant_file(name)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if file and frame.filename == str(file.path)]
    return f"{file.path.name}, line {lines[-1]}: " if file and lines else ""
