"""Every classification head as data: formula, reference, options, and where its module is."""

from __future__ import annotations

from base import kan_layers
from base.errors import unknown_name
from base.options import Option
from eval.classification.heads.spec import SEGMENT_KINDS, HeadSpec

DEFAULT_HEAD = "default"
"""The head that transformers gives a sequence classifier of the backbone's architecture."""

_LINEAR = HeadSpec(
    name="linear",
    reads="example",
    builder="eval.classification.heads.layers:build_linear",
    formula="W x + b",
    reference="the usual head; the 1-layer MLP of Al Imran and Ishmam 2024 (Table 3)",
)

_KAN_LAYERS = (
    HeadSpec(
        name="fourier-kan",
        reads="example",
        builder="eval.classification.heads.layers:build_fourier_kan",
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
        builder="eval.classification.heads.layers:build_kan",
        formula="sum_i w_ci SiLU(x_i) + s_ci sum_k v_cik B_k(x_i)",
        reference=kan_layers.KAN.reference,
        options=kan_layers.KAN.options,
    ),
    HeadSpec(
        name="cheby-kan",
        reads="example",
        builder="eval.classification.heads.layers:build_cheby_kan",
        formula="sum_i sum_k w_cik T_k(tanh x_i)",
        reference=kan_layers.CHEBY_KAN.reference,
        options=kan_layers.CHEBY_KAN.options,
    ),
    HeadSpec(
        name="rbf-kan",
        reads="example",
        builder="eval.classification.heads.layers:build_rbf_kan",
        formula="sum_i sum_g v_cig exp(-((LN(x)_i - t_g)/h)^2) + W SiLU(x) + b",
        reference=kan_layers.RBF_KAN.reference,
        options=kan_layers.RBF_KAN.options,
    ),
    HeadSpec(
        name="gr-kan",
        reads="example",
        builder="eval.classification.heads.layers:build_gr_kan",
        formula="W R(x) + b, with R(x_i) = P(x_i) / (1 + |A_g(x_i)|) for each group g of features",
        reference=kan_layers.GR_KAN.reference,
        options=kan_layers.GR_KAN.options,
    ),
    HeadSpec(
        name="spline-kan",
        reads="example",
        builder="eval.classification.heads.layers:build_spline_kan",
        formula="W S(x) + b, a spline S_i(x_i) = sum_k c_ik relu(t_ik - x_i)^3 for each feature",
        reference=kan_layers.SPLINE_KAN.reference,
        options=kan_layers.SPLINE_KAN.options,
    ),
)

_MLP = HeadSpec(
    name="mlp",
    reads="example",
    builder="eval.classification.heads.layers:build_mlp",
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

_SEGMENTS = {
    "segments": Option(default="windows", choices=SEGMENT_KINDS, help="what a segment is"),
    "window": Option(default=128, minimum=3, help="tokens of the longest segment, special ones included"),
    "stride": Option(default=32, minimum=0, help="tokens that a window shares with the one before it"),
}
"""How a text is cut, for every head that reads segments."""

_SWIPE = HeadSpec(
    name="swipe",
    reads="segments",
    builder="eval.classification.heads.swipe:build_swipe",
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
        "positions": Option(default="none", choices=("none", "sine"), help="what tells these their order"),
        **_SEGMENTS,
    },
    # Rows of num_layers=2 alone are of a version that always added sines.
    named_with={"positions": "num_layers"},
    scores_segments=True,
)

_SEGMENT_ATTENTION = HeadSpec(
    name="segment-attention",
    reads="segments",
    builder="eval.classification.heads.segment_baselines:build_segment_attention",
    formula="W sum_k a_k s_k + b over segments s_k, with a = softmax_k(q s_k / sqrt(D)) and a learned q",
    reference="BERT+attention, a rival of SWIPE's in Wang et al. 2023",
    options=_SEGMENTS,
    scores_segments=True,
)

_SEGMENT_LSTM = HeadSpec(
    name="segment-lstm",
    reads="segments",
    builder="eval.classification.heads.segment_baselines:build_segment_lstm",
    formula="W h + b, h the last or mean state of an LSTM over segments s_k",
    reference="BERT+LSTM, a rival of SWIPE's in Wang et al. 2023",
    options={
        "pooling": Option(default="last", choices=("last", "mean"), help="which of its states is read"),
        **_SEGMENTS,
    },
)

_SPACE = HeadSpec(
    name="space",
    reads="tokens",
    builder="eval.classification.heads.space:SpaceHead",
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
