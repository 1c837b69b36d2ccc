"""Hugging Face models with a feed-forward variant in every layer; importing this registers them.

The stock constructor runs first, then the FFNs are exchanged, then ``post_init`` initialises what is new. In
this order the variant draws from torch's generator only after everything else has, so that at one seed all
weights outside the FFN are bit-identical across variants.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    GPTNeoForCausalLM,
    GPTNeoForSequenceClassification,
    GPTNeoModel,
    PreTrainedModel,
    RobertaForMaskedLM,
    RobertaForSequenceClassification,
    RobertaModel,
)
from transformers.models.gpt_neo.modeling_gpt_neo import GPTNeoAttention, GPTNeoSelfAttention

from ffn_variants.attention import GPTNeoBackendAttention
from ffn_variants.configuration import FFNGPTNeoConfig, FFNRobertaConfig
from ffn_variants.errors import UsageError
from ffn_variants.layers import ffn_modules, replace_ffn

# A mixin only at run time: before a stock class in the bases it must not itself be a PreTrainedModel.
_Base = PreTrainedModel if TYPE_CHECKING else object


@contextmanager
def _paired_width(config: FFNGPTNeoConfig | FFNRobertaConfig) -> Iterator[None]:
    """Let the stock constructor take ``paired_intermediate_size``, where it is set, for intermediate_size."""
    own = config.intermediate_size
    setattr(config, "intermediate_size", config.paired_intermediate_size or own)  # noqa: B010
    try:
        yield
    finally:
        setattr(config, "intermediate_size", own)  # noqa: B010


class FFNVariantMixin(_Base):
    """Exchanges every layer's FFN after the stock constructor, and refuses checkpoints of another FFN."""

    def __init__(self, config: FFNGPTNeoConfig | FFNRobertaConfig, *args: Any, **kwargs: Any):
        with _paired_width(config):
            super().__init__(config, *args, **kwargs)
        layers = [module for module in self.modules() if ffn_modules(module)]
        assert layers, f"{type(self).__name__} has no layer that layers.ffn_modules knows"
        for layer in layers:
            replace_ffn(layer, config)
        self.post_init()

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *model_args: Any, **kwargs: Any) -> Any:
        """Load as ``PreTrainedModel.from_pretrained`` does, and check that the whole FFN came from the file.

        Raises:
            UsageError: If FFN weights are missing or left over, as after overriding ``ffn``. They would hold
                arbitrary memory: transformers initialises missing parameters only of modules that it knows.
        """
        wants_info = kwargs.pop("output_loading_info", False)
        loaded: Any = super().from_pretrained(
            pretrained_model_name_or_path, *model_args, output_loading_info=True, **kwargs
        )
        model, info = loaded
        wrong = sorted(ffn_keys(model, (*info["missing_keys"], *info["unexpected_keys"])))
        if wrong:
            raise UsageError(
                f"{pretrained_model_name_or_path} does not hold the weights of ffn {model.config.ffn!r} "
                f"(first difference: {wrong[0]}); load it with the ffn and ffn_options of its config.json"
            )
        return (model, info) if wants_info else model


def ffn_keys(model: PreTrainedModel, keys: tuple[str, ...]) -> list[str]:
    """Pick the state-dict keys that belong to an FFN of the model, with or without the backbone's prefix."""
    ffns = {id(ffn) for module in model.modules() for ffn in ffn_modules(module)}
    head = f"{model.base_model_prefix}."
    prefixes = tuple(
        f"{name.removeprefix(head)}." for name, module in model.named_modules() if id(module) in ffns
    )
    return [key for key in keys if key.removeprefix(head).startswith(prefixes)]


class FFNGPTNeoMixin(FFNVariantMixin):
    """Gives GPT-Neo's layers, too, an attention that runs on every backend of transformers."""

    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_attention_backend = True

    def __init__(self, config: FFNGPTNeoConfig, *args: Any, **kwargs: Any):
        wanted = config._attn_implementation
        # The stock constructor knows no other, and a model inside this one would refuse it.
        config._attn_implementation = "eager"
        super().__init__(config, *args, **kwargs)
        for module in self.modules():
            if isinstance(module, GPTNeoAttention) and isinstance(module.attention, GPTNeoSelfAttention):
                module.register_module("attention", GPTNeoBackendAttention(module.attention))
        config._attn_implementation = self.get_correct_attn_implementation(wanted, is_init_check=True)


class FFNGPTNeoModel(FFNGPTNeoMixin, GPTNeoModel):
    """GPT-Neo without a head."""

    config_class = FFNGPTNeoConfig


class FFNGPTNeoForCausalLM(FFNGPTNeoMixin, GPTNeoForCausalLM):
    """GPT-Neo as a language model."""

    config_class = FFNGPTNeoConfig


class FFNGPTNeoForSequenceClassification(FFNGPTNeoMixin, GPTNeoForSequenceClassification):
    """GPT-Neo with transformers' classification head on the last token."""

    config_class = FFNGPTNeoConfig


class FFNRobertaModel(FFNVariantMixin, RobertaModel):
    """RoBERTa without a head."""

    config_class = FFNRobertaConfig


class FFNRobertaForMaskedLM(FFNVariantMixin, RobertaForMaskedLM):
    """RoBERTa as a masked language model."""

    config_class = FFNRobertaConfig


class FFNRobertaForSequenceClassification(FFNVariantMixin, RobertaForSequenceClassification):
    """RoBERTa with transformers' classification head on the first token."""

    config_class = FFNRobertaConfig


# In the place of the stand-ins of ffn_variants.registration.
AutoConfig.register("ffn_gpt_neo", FFNGPTNeoConfig, exist_ok=True)
AutoModel.register(FFNGPTNeoConfig, FFNGPTNeoModel)
AutoModelForCausalLM.register(FFNGPTNeoConfig, FFNGPTNeoForCausalLM)
AutoModelForSequenceClassification.register(FFNGPTNeoConfig, FFNGPTNeoForSequenceClassification)

AutoConfig.register("ffn_roberta", FFNRobertaConfig, exist_ok=True)
AutoModel.register(FFNRobertaConfig, FFNRobertaModel)
AutoModelForMaskedLM.register(FFNRobertaConfig, FFNRobertaForMaskedLM)
AutoModelForSequenceClassification.register(FFNRobertaConfig, FFNRobertaForSequenceClassification)
