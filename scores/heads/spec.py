"""What the project knows of one classification head, as data that needs no torch.

Shapes: n examples, M vectors of the longest example, D hidden_size, C labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from base.options import Option, resolve_options

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
    named_with: Mapping[str, str] = field(default_factory=dict)
    """Options that its name in rows holds, even at their defaults, exactly where another option is not at its
    own: elsewhere they have no effect, and without them that name once meant something else."""
    scores_segments: bool = False
    """Whether it says what each segment adds to or says of each label."""

    def named_options(self, values: Mapping[str, int | float | str]) -> dict[str, int | float | str]:
        """Return those of given options that its name in rows holds, in the registry's order.

        Options that the head does not have are kept: the name may come from other code than this.
        """

        def is_changed(name: str) -> bool:
            return name in values and (name not in self.options or values[name] != self.options[name].default)

        settled = {name: values.get(name, option.default) for name, option in self.options.items()}
        return {
            name: value
            for name, value in (settled | dict(values)).items()
            if is_changed(self.named_with.get(name, name))
        }

    def resolve(self, options: Mapping[str, Any] | None = None) -> dict[str, int | float | str]:
        """Return a value for every option; ``UsageError`` for one that does not exist or does not fit."""
        return resolve_options(self.name, self.options, options, kind="head")
