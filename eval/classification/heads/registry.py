"""The registry of heads, and the functions that read it.

Each file of heads ends with their specs: formula, reference, options.
"""

from __future__ import annotations

from torch import nn

from base.errors import UsageError, unknown_name
from eval.classification.heads import layers, space, swipe
from eval.classification.heads.choice import HeadChoice
from eval.classification.heads.names import DEFAULT_HEAD
from eval.classification.heads.spec import HeadSpec

HEADS: dict[str, HeadSpec] = {spec.name: spec for spec in (*layers.SPECS, swipe.SPEC, space.SPEC)}
"""Every head but transformers' own; a new one is a file with its module and its ``SPEC``, its place in this
list, and its name and the defaults of its options in ``names``."""


def get_head(name: str) -> HeadSpec:
    """Look a head up; ``UsageError`` if there is none of that name, with all names and the closest match."""
    if name not in HEADS:
        raise unknown_name("head", name, [DEFAULT_HEAD, *HEADS])
    return HEADS[name]


def check_head(choice: HeadChoice, multi_label: bool = False) -> HeadChoice:
    """Check a choice's options, and whether the head fits a task.

    Args:
        choice: What a user asked for.
        multi_label: Whether examples of the task may have several labels.

    Returns:
        The choice with those options alone that differ from their defaults, so that one head has one name.

    Raises:
        UsageError: For an option that the head does not have, a value that does not fit, or a head that
            gives exactly one label.
    """
    fits = choice.name != DEFAULT_HEAD
    if fits:
        spec = get_head(choice.name)
        values = spec.resolve(dict(choice.options))
        options = tuple((key, value) for key, value in values.items() if value != spec.options[key].default)
        choice = HeadChoice(choice.name, options, choice.is_frozen)
        fits = spec.fits_multi_label
    if multi_label and not fits:
        several = ", ".join(name for name, spec in HEADS.items() if spec.fits_multi_label)
        raise UsageError(
            f"head {choice.name!r} gives exactly one label and examples of the task may have several; "
            f"choose one of {several}"
        )
    return choice


def build_head(choice: HeadChoice, hidden_size: int, num_labels: int) -> nn.Module:
    """Build a head, initialised from torch's global generator; errors as in ``check_head``."""
    spec = get_head(choice.name)
    return spec.build(hidden_size, num_labels, **spec.resolve(dict(choice.options)))
