"""The classification heads as data that needs no torch, and a user's choice of one.

Shapes: n examples, M vectors of the longest example, D hidden_size, C labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import TypeAdapter

from base import kan_layers
from base.config_input import read_yaml
from base.errors import UsageError, look_up, unknown_name
from base.options import Option, Value, like, parse_option_text, resolve_options, write_option_text

Reads = Literal["example", "tokens", "segments"]
SegmentKind = Literal["windows", "sentences", "turns"]
SEGMENT_KINDS: tuple[str, ...] = get_args(SegmentKind)


@dataclass(frozen=True, kw_only=True)
class HeadSpec:
    """One entry of the registry."""

    name: str
    """As typed after ``--head``."""
    reads: Reads
    """One vector an example, the vectors of its tokens, or one of each of its segments."""
    builder: str
    """``module:function`` or a class, for ``pkgutil.resolve_name``: called with (hidden_size, num_labels,
    **options), every option given but those of how texts are cut, it makes a module. Where the head reads
    the example that takes (n, D) vectors to (n, C) logits; else its ``forward(vectors, mask)`` takes
    (n, M, D) and a (n, M) mask that is true where there is a vector, and returns a ``HeadOutput``."""
    formula: str
    """Plain text, for the table of ``ffn-ablations list heads`` and the documents."""
    reference: str
    """Paper or repository."""
    fits_multi_label: bool = True
    """Whether its logits can be read one by one, so that an example may have several labels."""
    options: Mapping[str, Option] = field(default_factory=dict)
    """What may be given behind the name: ``--head "fourier-kan grid_size=10"``."""
    scores_segments: bool = False
    """Whether it says what each segment adds to or says of each label."""

    def named_options(self, values: Mapping[str, int | float | str]) -> dict[str, int | float | str]:
        """Return those of given options that its name in rows holds: not at their defaults, in order.

        Options that the head does not have are kept: the name may come from other code than this.
        """
        in_order = [name for name in self.options if name in values]
        return {
            name: values[name]
            for name in (*in_order, *(name for name in values if name not in self.options))
            if name not in self.options or values[name] != self.options[name].default
        }

    def resolve(self, options: Mapping[str, Any] | None = None) -> dict[str, int | float | str]:
        """Return a value for every option; ``UsageError`` for one that does not exist or does not fit."""
        return resolve_options(self.name, self.options, options, kind="head")


DEFAULT_HEAD = "default"
"""The head that transformers gives a sequence classifier of the backbone's architecture."""

SEGMENT_OPTIONS = {
    "segments": Option(default="windows", choices=SEGMENT_KINDS, help="what a segment is"),
    "window": Option(default=128, minimum=3, help="tokens of the longest segment, special ones included"),
    "stride": Option(default=32, minimum=0, help="tokens that a window shares with the one before it"),
}
"""How a text is cut, for every head that reads segments; its module does not see them."""

_HEAD = TypeAdapter(HeadSpec)


def read_head(name: str, row: Mapping[str, Any]) -> HeadSpec:
    """Make a head of its row in ``head_descriptions.yaml``.

    Raises:
        pydantic.ValidationError: For a field that is missing or wrong.
    """
    fields = dict(row)
    layer = getattr(kan_layers, fields.pop("kan_layer")) if "kan_layer" in row else None
    of_layer = {"reference": layer.reference} if layer else {}
    of_segments = SEGMENT_OPTIONS if row["reads"] == "segments" else {}
    options = {**(layer.options if layer else {}), **row.get("options", {}), **of_segments}
    return _HEAD.validate_python({"name": name, **of_layer, **fields, "options": options})


HEADS: dict[str, HeadSpec] = {
    name: read_head(name, row) for name, row in read_yaml(Path(__file__).with_suffix(".yaml")).items()
}
"""Every head but transformers' own; a new one is a module, and a row of that file."""

HEAD_NAMES: tuple[str, ...] = (DEFAULT_HEAD, *HEADS)


def get_head(name: str) -> HeadSpec:
    """Look a head up; ``UsageError`` if there is none of that name, with all names and the closest match."""
    return look_up("head", name, HEADS)


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
    parsed = parse_option_text(text, "head", (FROZEN,))
    options = parsed.options
    if name == DEFAULT_HEAD and options:
        raise UsageError(f"head {text!r}: {DEFAULT_HEAD} takes no options; remove {', '.join(options)}")
    return HeadChoice(name, tuple(options.items()), FROZEN in parsed.words)


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
