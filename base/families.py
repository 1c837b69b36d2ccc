"""The model families: what everything that differs between them is, as data that needs no model.

A new family is a config and its model classes in ``ffn_variants/models``, a registration of its layer in
``ffn_variants/models/layers.py``, and an entry here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from base.errors import UsageError, look_up

Objective = Literal["causal", "masked", "span_corruption"]

BASELINE = "gelu"
"""What the families have without a swap; compared with unless a user names another."""

Budget = Literal["width", "params", "active-params", "flops"]
"""What is held equal: the width as given, the parameters, those that one token meets, or the FLOPs of its
forward pass."""

AUTO_CLASSES: Mapping[str, str] = {
    "causal": "AutoModelForCausalLM",
    "masked": "AutoModelForMaskedLM",
    "span_corruption": "AutoModelForSeq2SeqLM",
}
"""The class of transformers that loads a language model with an objective."""

PIPELINES: Mapping[str, str] = {"causal": "text-generation", "masked": "fill-mask"}
"""The task of the Hugging Face hub, and pipeline of transformers, of a language model with an objective; an
encoder-decoder has none."""


@dataclass(frozen=True, kw_only=True)
class FamilySpec:
    """One architecture. Classes are named as ``module:class``, for ``pkgutil.resolve_name``."""

    name: str
    """As in ``family:`` of a config, run ids and rows; the ``model_type`` of the stock architecture."""
    label: str
    """As readers know it."""
    objective: Objective
    """What its models are trained to predict."""
    config_class: str
    backbone_class: str
    """The model without a head."""
    model_class: str
    """The language model."""
    classifier_class: str
    """transformers' own sequence classifier."""
    defaults: Mapping[str, Any]
    """Config values of the source study, where they are not the stock config's; T5 and Llama, which are not
    in it, get the same sizes."""
    config_fields: Mapping[str, tuple[str, ...]]
    """What the family's config calls values of our ``model:`` section that not all families call alike."""
    dropout: float
    """Of the stock architecture."""
    stock_ffn: str = "gelu"
    """The variant that the stock architecture has where its config names no other activation."""
    ties_embeddings: bool = True
    """Whether the output embeddings are the input embeddings where ``model:`` does not say."""
    has_ffn_biases: bool = True
    """Whether the linear layers of the stock feed-forward network have biases."""
    counts_from_padding: bool = False
    """Whether the position of a text's first token is ``pad_token_id + 1`` instead of 0."""
    rotates_pairs: bool = False
    """Whether a head's channels are rotated two by two, so that it has an even number (Su et al. 2021)."""
    pooling: Literal["first", "last", "mean"]
    """What stands for a text in a classifier: a token, or the mean (of an encoder-decoder, over its encoder).
    """

    @property
    def has_one_dropout(self) -> bool:
        """Whether one value of its config serves embeddings, residual branches and attention."""
        fields = self.config_fields
        return fields.get("hidden_dropout") == fields["attention_dropout"]

    def check_heads(
        self, hidden_size: int, heads: int, head_width: int | None = None, section: str = ""
    ) -> None:
        """Refuse heads that the model could not be built with, or could not run.

        Args:
            hidden_size: Width of the residual stream.
            heads: Attention heads.
            head_width: Channels of each, where that is not ``hidden_size / heads``.
            section: What stands before the names of the fields.

        Raises:
            UsageError: Naming both fields.
        """
        size, number = f"{section}hidden_size {hidden_size}", f"{section}num_attention_heads {heads}"
        if heads < 1 or hidden_size % heads:
            raise UsageError(f"{size} is not a multiple of {number}; change one of them")
        width = hidden_size // heads if head_width is None else head_width
        if width < 1 or (self.rotates_pairs and width % 2):
            raise UsageError(
                f"{size} and {number} are heads of {width} channels, and {self.label} rotates pairs of them; "
                f"take a width that is a multiple of {2 * heads}, or other heads"
            )

    def first_position(self, pad_token_id: int = 0) -> int:
        """Return the position id of a text's first token, which is how many rows of the table serve none.

        Args:
            pad_token_id: Of the model's config; 0 is what a trained tokenizer has.
        """
        return pad_token_id + 1 if self.counts_from_padding else 0


# Sizes of the source study, and the special tokens of its tokenizer.
_THESIS: Mapping[str, Any] = {
    "vocab_size": 10_000,
    "hidden_size": 512,
    "intermediate_size": 1024,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

_GPT_NEO = FamilySpec(
    name="gpt_neo",
    label="GPT-Neo",
    objective="causal",
    config_class="ffn_variants.models.configuration:FFNGPTNeoConfig",
    backbone_class="ffn_variants.models.modeling:FFNGPTNeoModel",
    model_class="ffn_variants.models.modeling:FFNGPTNeoForCausalLM",
    classifier_class="ffn_variants.models.modeling:FFNGPTNeoForSequenceClassification",
    defaults={**_THESIS, "num_layers": 2, "num_heads": 4, "max_position_embeddings": 512, "window_size": 256},
    config_fields={
        "initializer_range": ("initializer_range",),
        "window_size": ("window_size",),
        "hidden_dropout": ("embed_dropout", "resid_dropout"),
        "attention_dropout": ("attention_dropout",),
    },
    dropout=0.0,
    pooling="last",
)

_ROBERTA = FamilySpec(
    name="roberta",
    label="RoBERTa",
    objective="masked",
    config_class="ffn_variants.models.configuration:FFNRobertaConfig",
    backbone_class="ffn_variants.models.modeling:FFNRobertaModel",
    model_class="ffn_variants.models.modeling:FFNRobertaForMaskedLM",
    classifier_class="ffn_variants.models.modeling:FFNRobertaForSequenceClassification",
    defaults={
        **_THESIS,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 513,
        "type_vocab_size": 2,
    },
    config_fields={
        "initializer_range": ("initializer_range",),
        "hidden_dropout": ("hidden_dropout_prob",),
        "attention_dropout": ("attention_probs_dropout_prob",),
    },
    dropout=0.1,
    # With <pad> as 0, 513 rows serve 512 tokens.
    counts_from_padding=True,
    pooling="first",
)

_T5 = FamilySpec(
    name="t5",
    label="T5",
    objective="span_corruption",
    config_class="ffn_variants.models.configuration:FFNT5Config",
    backbone_class="ffn_variants.models.modeling:FFNT5Model",
    model_class="ffn_variants.models.modeling:FFNT5ForConditionalGeneration",
    classifier_class="ffn_variants.models.modeling:FFNT5ForSequenceClassification",
    defaults={
        **_THESIS,
        # One layer in the encoder and one in the decoder: two FFNs, as in the other families.
        "num_layers": 1,
        "num_heads": 4,
        "max_position_embeddings": 512,
    },
    config_fields={"hidden_dropout": ("dropout_rate",), "attention_dropout": ("dropout_rate",)},
    dropout=0.1,
    has_ffn_biases=False,
    pooling="mean",
)

_LLAMA = FamilySpec(
    name="llama",
    label="Llama",
    objective="causal",
    config_class="ffn_variants.models.configuration:FFNLlamaConfig",
    backbone_class="ffn_variants.models.modeling:FFNLlamaModel",
    model_class="ffn_variants.models.modeling:FFNLlamaForCausalLM",
    classifier_class="ffn_variants.models.modeling:FFNLlamaForSequenceClassification",
    defaults={
        **_THESIS,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 512,
        # The stock config has two tables, which at 512 channels are 10 million parameters by themselves.
        "tie_word_embeddings": True,
    },
    config_fields={
        "initializer_range": ("initializer_range",),
        "attention_dropout": ("attention_dropout",),
        "tie_word_embeddings": ("tie_word_embeddings",),
    },
    dropout=0.0,
    stock_ffn="swiglu",
    has_ffn_biases=False,
    rotates_pairs=True,
    pooling="last",
)

PRETRAINED = "pretrained"
"""What stands in rows for a family where a study names models that are pretrained already."""

FAMILIES: Mapping[str, FamilySpec] = {spec.name: spec for spec in (_GPT_NEO, _ROBERTA, _T5, _LLAMA)}
"""Every family by its name."""


def get_family(name: str) -> FamilySpec:
    """Look a family up; ``UsageError`` for an unknown name, with all names and the closest match."""
    return look_up("family", name, FAMILIES)


def family_of(model_type: str) -> FamilySpec | None:
    """Return the family of a saved model by the ``model_type`` of its config.json.

    A stock model of the same architecture belongs to the family as well; of any other it is None.
    """
    return FAMILIES.get(model_type.removeprefix("ffn_"))


def family_label(name: str) -> str:
    """Name a family as readers know it; an architecture that is none of ours keeps its own name."""
    return FAMILIES[name].label if name in FAMILIES else name
