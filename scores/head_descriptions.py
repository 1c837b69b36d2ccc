"""What the project knows of one classification head, as data that needs no torch.

Shapes: n examples, M vectors of the longest example, D hidden_size, C labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from base import kan_layers
from base.errors import UsageError, unknown_name
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

_LINEAR = HeadSpec(
    name="linear",
    reads="example",
    builder="eval.classification.heads:linear",
    formula="W x + b",
    reference="the usual head; the 1-layer MLP of Al Imran and Ishmam 2024 (Table 3)",
)

_KAN_LAYERS = (
    HeadSpec(
        name="fourier-kan",
        reads="example",
        builder="eval.classification.heads:build_fourier_kan",
        formula="sum_i sum_{k<=grid_size} a_cik cos(k x_i) + b_cik sin(k x_i)",
        reference="FR-KAN: Al Imran and Ishmam 2024, arXiv:2408.08803",
        options={
            **kan_layers.FOURIER_KAN.options,
            "init_scale": Option(default=1.0, help="standard deviation of a logit at the start"),
        },
    ),
    HeadSpec(
        name="kan",
        reads="example",
        builder="ffn_variants.variants.kan:KANLinear",
        formula="sum_i w_ci SiLU(x_i) + s_ci sum_k v_cik B_k(x_i)",
        reference=kan_layers.KAN.reference,
        options=kan_layers.KAN.options,
    ),
    HeadSpec(
        name="cheby-kan",
        reads="example",
        builder="ffn_variants.variants.series_kan:ChebyKANLinear",
        formula="sum_i sum_k w_cik T_k(tanh x_i)",
        reference=kan_layers.CHEBY_KAN.reference,
        options=kan_layers.CHEBY_KAN.options,
    ),
    HeadSpec(
        name="rbf-kan",
        reads="example",
        builder="ffn_variants.variants.bump_kan:RBFKANLinear",
        formula="sum_i sum_g v_cig exp(-((LN(x)_i - t_g)/h)^2) + W SiLU(x) + b",
        reference=kan_layers.RBF_KAN.reference,
        options=kan_layers.RBF_KAN.options,
    ),
    HeadSpec(
        name="gr-kan",
        reads="example",
        builder="eval.classification.heads:build_gr_kan",
        formula="W R(x) + b, with R(x_i) = P(x_i) / (1 + |A_g(x_i)|) for each group g of features",
        reference=kan_layers.GR_KAN.reference,
        options=kan_layers.GR_KAN.options,
    ),
    HeadSpec(
        name="spline-kan",
        reads="example",
        builder="eval.classification.heads:build_spline_kan",
        formula="W S(x) + b, a spline S_i(x_i) = sum_k c_ik relu(t_ik - x_i)^3 for each feature",
        reference=kan_layers.SPLINE_KAN.reference,
        options=kan_layers.SPLINE_KAN.options,
    ),
)

_MLP = HeadSpec(
    name="mlp",
    reads="example",
    builder="eval.classification.heads:build_mlp",
    formula="V sigmoid(W x + b) + c",
    reference="the 2-layer MLP of Al Imran and Ishmam 2024 (Table 4 alone)",
    options={
        "width": Option(default=128, minimum=1, help="hidden units"),
        "match": Option(
            default="none",
            choices=("none", *(spec.name for spec in (_LINEAR, *_KAN_LAYERS))),
            help="take the smallest width that gives at least as many parameters as this head has",
        ),
    },
)

SEGMENT_OPTIONS = {
    "segments": Option(default="windows", choices=SEGMENT_KINDS, help="what a segment is"),
    "window": Option(default=128, minimum=3, help="tokens of the longest segment, special ones included"),
    "stride": Option(default=32, minimum=0, help="tokens that a window shares with the one before it"),
}
"""How a text is cut, for every head that reads segments; its module does not see them."""

_SWIPE = HeadSpec(
    name="swipe",
    reads="segments",
    builder="eval.classification.heads:SwipeHead",
    formula="max_i or sum_i of z_i = W s_i + b over segments s_i; gated: sigmoid(W_g s_i + b_g) * z_i",
    reference="SWIPE: Wang et al. 2023, arXiv:2304.01638",
    options={
        "pooling": Option(
            default="max",
            choices=("max", "gated-max", "sum", "gated-sum"),
            help="how the scores of segments become logits",
        ),
        "num_layers": Option(default=0, minimum=0, help="transformer layers over the segments"),
        "num_heads": Option(default=4, minimum=1, help="attention heads of each"),
        **SEGMENT_OPTIONS,
    },
    scores_segments=True,
)

_SEGMENT_ATTENTION = HeadSpec(
    name="segment-attention",
    reads="segments",
    builder="eval.classification.heads:SegmentAttentionHead",
    formula="W sum_k a_k s_k + b over segments s_k, with a = softmax_k(q s_k / sqrt(D)) and a learned q",
    reference="BERT+attention, a rival of SWIPE's in Wang et al. 2023",
    options=SEGMENT_OPTIONS,
    scores_segments=True,
)

_SEGMENT_LSTM = HeadSpec(
    name="segment-lstm",
    reads="segments",
    builder="eval.classification.heads:SegmentLSTMHead",
    formula="W h + b, h the last or mean state of an LSTM over segments s_k",
    reference="BERT+LSTM, a rival of SWIPE's in Wang et al. 2023",
    options={
        "pooling": Option(default="last", choices=("last", "mean"), help="which of its states is read"),
        **SEGMENT_OPTIONS,
    },
)

_SPACE = HeadSpec(
    name="space",
    reads="tokens",
    builder="eval.classification.heads:SpaceHead",
    formula="W [mean_t C_1; ...; mean_t C_C] + b, C_i = tanh(E P_i) for token vectors E and each class i",
    reference="Space Model: Tytarenko and Amin 2024, arXiv:2401.16638",
    fits_multi_label=False,
    options={
        "num_dimensions": Option(default=3, minimum=1, help="of each class's space"),
        "intra_weight": Option(
            default=0.001,
            minimum=0,
            help="of the intra-space loss, the inverse variance of a text's tokens in each space",
        ),
        "inter_weight": Option(
            default=0.0,
            minimum=0,
            help="of the inter-space loss, which keeps the spaces' centroids apart; the authors tried 0.2",
        ),
    },
)

_OF_SEGMENTS = (_SWIPE, _SEGMENT_ATTENTION, _SEGMENT_LSTM)

HEADS: dict[str, HeadSpec] = {
    spec.name: spec for spec in (_LINEAR, _MLP, *_KAN_LAYERS, *_OF_SEGMENTS, _SPACE)
}
"""Every head but transformers' own; a new one is a file with its module, and an entry here."""

HEAD_NAMES: tuple[str, ...] = (DEFAULT_HEAD, *HEADS)


def get_head(name: str) -> HeadSpec:
    """Look a head up; ``UsageError`` if there is none of that name, with all names and the closest match."""
    if name not in HEADS:
        raise unknown_name("head", name, HEAD_NAMES)
    return HEADS[name]


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
