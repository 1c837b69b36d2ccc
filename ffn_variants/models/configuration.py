"""Model configs: a family's own config plus the name and the options of its feed-forward variant.

No postponed annotations in this file: the strict dataclasses of huggingface_hub check values against the
annotations themselves and do not resolve strings.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from huggingface_hub.dataclasses import strict
from transformers import GPTNeoConfig, LlamaConfig, RobertaConfig, T5Config

from base.errors import UsageError
from ffn_variants.names import is_registered
from ffn_variants.registry import get_variant


@dataclass(kw_only=True)
class FFNFields:
    """What the configs of all families have beside their family's own.

    Attributes:
        ffn: Name in ``ffn_variants.FFN_VARIANTS``.
        ffn_options: The variant's options, for example ``{"grid_size": 3}``.
        paired_intermediate_size: ``intermediate_size`` of the run that this one is paired with, if it
            differs. Initial weights outside the FFN are then drawn as in a model of that width, so that at
            one seed both models start from the same ones.
        ffn_source: The ``source_fingerprint`` of the variant that the weights are trained through; stays
            when a model is loaded and saved. None in older models.
        ffn_files: For a variant in a file beside the weights: its name, and as ``"ffn_mine.py:SPEC"`` the
            file and the name of its spec there. None where it comes from this project or a package.
    """

    activation_field: ClassVar[str]
    """The family's own field for an activation; it has effect only where ``ffn`` is "gelu"."""

    ffn: str = "gelu"
    ffn_options: dict | None = None
    paired_intermediate_size: int | None = None
    ffn_source: str | None = None
    ffn_files: dict | None = None

    def __post_init__(self, **kwargs):
        # Here, as the errors of ``validate_*`` methods lose their text to a wrapper.
        super().__post_init__(**kwargs)  # type: ignore[missing-attribute]
        # A variant in a file beside the weights is run by the model, and only with consent.
        if is_registered(self.ffn) or self.ffn not in (self.ffn_files or {}):
            get_variant(self.ffn).resolve(self.ffn_options)
        field = self.activation_field
        default, activation = type(self).__dataclass_fields__[field].default, getattr(self, field)
        if activation != default:
            raise UsageError(
                f"{field} {activation!r} would contradict ffn {self.ffn!r}; leave it at {default!r} and "
                "choose the activation with ffn"
            )

    @classmethod
    def register_for_auto_class(cls, auto_class: str = "AutoConfig") -> None:
        """Do nothing, so that transformers copies no file of this project beside weights of remote code."""

    @staticmethod
    def derived_values(values: Mapping[str, Any]) -> dict[str, Any]:
        """Return fields that follow from others where they are None; most families have none."""
        return {}


@strict
class FFNGPTNeoConfig(FFNFields, GPTNeoConfig):
    r"""GPT-Neo whose feed-forward networks are all of one variant; fields beside GPT-Neo's: ``FFNFields``."""

    model_type = "ffn_gpt_neo"
    activation_field = "activation_function"

    @staticmethod
    def derived_values(values: Mapping[str, Any]) -> dict[str, Any]:
        """Return fields that follow from others where they are None."""
        num_layers = values["num_layers"]
        # Global and local attention in turn, starting with global, in GPT-Neo's notation.
        types = [[["global", "local"], num_layers // 2]] if num_layers > 1 else []
        return {"attention_types": types + ([[["global"], 1]] if num_layers % 2 else [])}


@strict
class FFNRobertaConfig(FFNFields, RobertaConfig):
    r"""RoBERTa whose feed-forward networks are all of one variant; fields beside its own: ``FFNFields``."""

    model_type = "ffn_roberta"
    activation_field = "hidden_act"


@strict
class FFNT5Config(FFNFields, T5Config):
    r"""T5 whose feed-forward networks, in encoder and decoder, are all of one variant; see ``FFNFields``.

    T5 has no table of positions: ``max_position_embeddings`` is the length of text that the model was made
    for, which is what scoring and fine-tuning cut texts to.
    """

    model_type = "ffn_t5"
    activation_field = "feed_forward_proj"
    attribute_map: ClassVar[dict[str, str]] = {**T5Config.attribute_map, "intermediate_size": "d_ff"}

    feed_forward_proj: str = "gelu_new"
    max_position_embeddings: int = 512
    bos_token_id: int | None = None
    decoder_start_token_id: int | None = 0

    @staticmethod
    def derived_values(values: Mapping[str, Any]) -> dict[str, Any]:
        """Return fields that follow from others where they are None, as in the stock models of T5."""
        return {
            "d_kv": values["d_model"] // values["num_heads"],
            "decoder_start_token_id": values["pad_token_id"],
        }


@strict
class FFNLlamaConfig(FFNFields, LlamaConfig):
    r"""Llama whose feed-forward networks are all of one variant, its own "swiglu"; see ``FFNFields``.

    ``hidden_act`` and ``mlp_bias`` stay at their defaults and have no effect.
    """

    model_type = "ffn_llama"
    activation_field = "hidden_act"
    # Every device has the whole FFN: the stock plan splits that of three linear layers by their names.
    base_model_tp_plan: ClassVar[dict[str, str]] = {
        name: how for name, how in (LlamaConfig.base_model_tp_plan or {}).items() if ".mlp." not in name
    }

    ffn: str = "swiglu"

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        if self.mlp_bias:
            raise UsageError("mlp_bias has no effect: which biases an FFN has is the variant's; leave it out")


FFNConfig = FFNGPTNeoConfig | FFNRobertaConfig | FFNT5Config | FFNLlamaConfig
"""The config of a model of any family."""
