"""Which head a user asked for: ``linear``, ``fourier-kan grid_size=10``, ``swipe pooling=max frozen``."""

from __future__ import annotations

from dataclasses import dataclass

from base.errors import UsageError, unknown_name
from base.option_text import Value, like, parse_option_text, write_option_text
from eval.classification.heads.registry import DEFAULT_HEAD, HEAD_NAMES, HEADS, get_head

FROZEN = "frozen"
"""Behind a head's name: the backbone keeps its weights."""


@dataclass(frozen=True)
class HeadChoice:
    """A head, the options that are not left at their defaults, and whether the backbone is frozen."""

    name: str
    options: tuple[tuple[str, Value], ...] = ()
    is_frozen: bool = False

    def __str__(self) -> str:
        """Write it as ``parse_head`` reads it; the same choice always has the same text."""
        return write_option_text(self.name, dict(self.options), [FROZEN] if self.is_frozen else [])


def parse_head(text: str) -> HeadChoice:
    """Read a head's name, options as ``name=value``, and the word ``frozen``, with spaces between.

    Whether the options exist, and have values that fit, is for the head to say (``check_head``).

    Raises:
        UsageError: For an unknown name, or a word that is neither an option nor ``frozen``.
    """
    words = text.split()
    if not words:
        raise UsageError(f"a head has no name; choose one of {', '.join(HEAD_NAMES)}")
    name = words[0]
    if name == FROZEN or "=" in name:
        raise UsageError(
            f"{name!r} is no head; quotes keep a head and what belongs to it together, "
            f'"linear {FROZEN}" or "swipe pooling=sum"'
        )
    if name not in HEAD_NAMES:
        raise unknown_name("head", name, HEAD_NAMES)
    read = parse_option_text(text, "head", (FROZEN,))
    options = read.options
    if name == DEFAULT_HEAD and options:
        raise UsageError(f"head {text!r}: {DEFAULT_HEAD} takes no options; remove {', '.join(options)}")
    return HeadChoice(name, tuple(options.items()), FROZEN in read.words)


def check_head(choice: HeadChoice, multi_label: bool = False) -> HeadChoice:
    """Check a choice's options, and whether the head fits a task.

    Args:
        choice: What a user asked for.
        multi_label: Whether examples of the task may have several labels.

    Returns:
        The choice with those options alone that its name in rows holds, so that one head has one name.

    Raises:
        UsageError: For an option that the head does not have, a value that does not fit, or a head that
            gives exactly one label.
    """
    fits = choice.name != DEFAULT_HEAD
    if fits:
        spec = get_head(choice.name)
        options = spec.named_options(spec.resolve(dict(choice.options)))
        choice = HeadChoice(choice.name, tuple(options.items()), choice.is_frozen)
        fits = spec.fits_multi_label
    if multi_label and not fits:
        several = ", ".join(name for name, spec in HEADS.items() if spec.fits_multi_label)
        raise UsageError(
            f"head {choice.name!r} gives exactly one label and examples of the task may have several; "
            f"choose one of {several}"
        )
    return choice


def head_name(text: str) -> str:
    """Name a head as rows do, without options that are at their defaults.

    Options that no head takes stay in the name: it may come from other code than this.

    Raises:
        UsageError: As ``parse_head``.
    """
    choice = parse_head(text)
    if choice.name not in HEADS:
        return str(choice)
    spec = HEADS[choice.name]
    defaults = {name: option.default for name, option in spec.options.items()}
    options = spec.named_options({name: like(defaults.get(name), value) for name, value in choice.options})
    return str(HeadChoice(choice.name, tuple(options.items()), choice.is_frozen))
