"""Hugging Face models with a feed-forward variant in every layer.

The stock constructor runs first, then the FFNs are exchanged, then ``post_init`` initialises what is new. In
this order the variant draws from torch's generator only after everything else has, so that at one seed all
weights outside the FFN are bit-identical across variants.
"""

from __future__ import annotations

import copy
import functools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from torch import Tensor, nn
from transformers import initialization as init
from transformers.modeling_outputs import Seq2SeqSequenceClassifierOutput
from transformers.models.gpt_neo.modeling_gpt_neo import GPTNeoAttention, GPTNeoSelfAttention
from transformers.utils.generic import can_return_tuple

from base.errors import UsageError
from ffn_variants.models.attention import GPTNeoBackendAttention, count_from_first_token
from ffn_variants.models.configuration import (
    FFNConfig,
    FFNGPTNeoConfig,
    FFNLlamaConfig,
    FFNRobertaConfig,
    FFNT5Config,
)
from ffn_variants.models.layers import ffn_modules, replace_ffn
from ffn_variants.models.stored_variants import hub_arguments, load_variants, need_variants, save_variants
from ffn_variants.source_fingerprint import cure, describe_change, is_same_source

# A mixin only at run time: before a stock class in the bases it must not itself be a PreTrainedModel.
_Base = transformers.PreTrainedModel if TYPE_CHECKING else object


@contextmanager
def _paired_width(config: FFNConfig) -> Iterator[None]:
    """Let the stock constructor take ``paired_intermediate_size``, where it is set, for intermediate_size."""
    width = config.intermediate_size
    setattr(config, "intermediate_size", config.paired_intermediate_size or width)  # noqa: B010
    try:
        yield
    finally:
        setattr(config, "intermediate_size", width)  # noqa: B010


class FFNVariantMixin(_Base):
    """Exchanges every layer's FFN after the stock constructor, and refuses checkpoints of another FFN."""

    _is_built = False

    def __init__(self, config: FFNConfig, *args: Any, **kwargs: Any):
        need_variants(config)
        with _paired_width(config):
            super().__init__(config, *args, **kwargs)
        for module in self.modules():
            if isinstance(module, transformers.PreTrainedModel):  # T5's stacks keep copies of the config
                setattr(module.config, "intermediate_size", config.intermediate_size)  # noqa: B010
        layers = [module for module in self.modules() if ffn_modules(module)]
        assert layers, f"{type(self).__name__} has no layer that layers.ffn_modules knows"
        for layer in layers:
            replace_ffn(layer, config)
        self.post_init()
        self._is_built = True

    @torch.no_grad()
    def initialize_weights(self) -> None:
        """Initialise what holds no values yet, as in a model that was made on the meta device.

        Where the embeddings or an FFN do not, all that does not gets what the constructor draws, on the CPU:
        of an FFN, transformers knows the linear layers and the norms alone.
        """
        ffns = [ffn for layer in self.modules() for ffn in ffn_modules(layer)]
        parts = [self.get_input_embeddings(), *(part for ffn in ffns for part in ffn.modules())]
        if self._is_built and any(map(_is_unset, parts)):
            self._take_initial_values()
        super().initialize_weights()

    def _take_initial_values(self) -> None:
        with torch.device("cpu"):
            initialised = type(self)(copy.deepcopy(self.config))  # type: ignore[bad-argument-type]
        for name, initial in initialised.named_modules():
            module = self.get_submodule(name)
            if not getattr(module, "_is_hf_initialized", False):
                for key, tensor in _own_tensors(initial).items():
                    init.copy_(getattr(module, key), tensor)
                setattr(module, "_is_hf_initialized", True)  # noqa: B010

    def post_init(self) -> None:
        """Finish as the stock class does, without what it says of weights that this FFN does not have."""
        super().post_init()
        parts = {part for key, _ in self.named_parameters() for part in key.split(".")}
        self._keep_in_fp32_modules = parts.intersection(self._keep_in_fp32_modules or ())

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *model_args: Any, **kwargs: Any) -> Any:
        """Load as ``PreTrainedModel.from_pretrained`` does, and check that the whole FFN came from the file.

        A variant that lies beside the weights is loaded from there, if ``trust_remote_code=True`` is given. A
        model that was trained through another source of its variant is told of, once.

        Raises:
            UsageError: If FFN weights are missing or left over, as after overriding ``ffn``. They would hold
                arbitrary memory: transformers initialises missing parameters only of modules that it knows.
                Or if a variant lies beside the weights, and ``trust_remote_code`` is not given.
        """
        cls._load_variants(pretrained_model_name_or_path, **kwargs)
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
        if not is_same_source(model.config.ffn, model.config.ffn_source):
            _warn_of_other_source(
                model.config.ffn, model.config.ffn_source, str(pretrained_model_name_or_path)
            )
        return (model, info) if wants_info else model

    @classmethod
    def _load_variants(cls, model: Any, **kwargs: Any) -> None:
        """Load the variants that lie beside the weights, with consent."""
        if model is None:
            return  # transformers then takes all from arguments
        config: Any = kwargs.get("config")
        if not isinstance(config, transformers.PreTrainedConfig):
            config_class: Any = cls.config_class
            config = config_class.from_pretrained(config or model, **hub_arguments(kwargs))
        load_variants(config, model, bool(kwargs.get("trust_remote_code")), **hub_arguments(kwargs))

    def save_pretrained(self, save_directory: Any, *args: Any, **kwargs: Any) -> None:
        """Save as ``PreTrainedModel.save_pretrained`` does, with the file of a variant that came from one."""
        if kwargs.get("is_main_process", True):
            save_variants(self.config, Path(save_directory))  # type: ignore[bad-argument-type]
        super().save_pretrained(save_directory, *args, **kwargs)


def _own_tensors(module: nn.Module) -> dict[str, Tensor]:
    return dict((*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)))


def _is_unset(module: nn.Module) -> bool:
    """Whether a module has tensors without values yet, by the marks that transformers sets."""
    return not getattr(module, "_is_hf_initialized", False) and any(
        not (tensor.is_meta or getattr(tensor, "_is_hf_initialized", False))
        for tensor in _own_tensors(module).values()
    )


@functools.cache  # once for each model
def _warn_of_other_source(ffn: str, recorded: str, folder: str) -> None:
    logging.getLogger(__name__).warning(
        "%s: these weights were trained through %s: their outputs are not those of its training; retrain, %s",
        folder,
        describe_change(ffn, recorded),
        cure(recorded),
    )


def ffn_keys(model: transformers.PreTrainedModel, keys: tuple[str, ...]) -> list[str]:
    """Pick the state-dict keys that belong to an FFN of the model, with or without the backbone's prefix."""
    ffns = {id(ffn) for module in model.modules() for ffn in ffn_modules(module)}
    head = f"{model.base_model_prefix}."
    prefixes = tuple(
        f"{name.removeprefix(head)}." for name, module in model.named_modules() if id(module) in ffns
    )
    return [key for key in keys if key.removeprefix(head).startswith(prefixes)]


class FFNGPTNeoMixin(FFNVariantMixin):
    """Gives GPT-Neo's layers an attention that runs on SDPA and FlashAttention too, and its texts positions.

    The stock attention is eager; flex_attention is refused here as well. Positions count a text's tokens,
    whatever padding stands before it.
    """

    config_class = FFNGPTNeoConfig
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_attention_backend = True

    def __init__(self, config: FFNGPTNeoConfig, *args: Any, **kwargs: Any):
        implementation = config._attn_implementation
        # The stock constructor knows no other, and a model inside this one would refuse it.
        config._attn_implementation = "eager"
        super().__init__(config, *args, **kwargs)
        for module in self.modules():
            if isinstance(module, GPTNeoAttention) and isinstance(module.attention, GPTNeoSelfAttention):
                module.register_module("attention", GPTNeoBackendAttention(module.attention))
        config._attn_implementation = self.get_correct_attn_implementation(implementation, is_init_check=True)
        self.base_model.register_forward_pre_hook(count_from_first_token, with_kwargs=True)

    @classmethod
    def _can_set_attn_implementation(cls) -> bool:
        # Once the stock class was asked, which cannot, transformers would give its answer for this one too.
        return True


class FFNGPTNeoModel(FFNGPTNeoMixin, transformers.GPTNeoModel):
    """GPT-Neo without a head."""


class FFNGPTNeoForCausalLM(FFNGPTNeoMixin, transformers.GPTNeoForCausalLM):
    """GPT-Neo as a language model."""


class FFNGPTNeoForSequenceClassification(FFNGPTNeoMixin, transformers.GPTNeoForSequenceClassification):
    """GPT-Neo with transformers' classification head on the last token."""


class FFNRobertaModel(FFNVariantMixin, transformers.RobertaModel):
    """RoBERTa without a head."""

    config_class = FFNRobertaConfig


class FFNRobertaForMaskedLM(FFNVariantMixin, transformers.RobertaForMaskedLM):
    """RoBERTa as a masked language model."""

    config_class = FFNRobertaConfig


class FFNRobertaForSequenceClassification(FFNVariantMixin, transformers.RobertaForSequenceClassification):
    """RoBERTa with transformers' classification head on the first token."""

    config_class = FFNRobertaConfig


class FFNT5Mixin(FFNVariantMixin):
    """Has T5 draw its initial weights as the stock classes do."""

    config_class = FFNT5Config

    @classmethod
    def is_custom_code(cls) -> bool:
        """Say no: transformers would leave out what ``_init_weights`` does for modules without own weights.

        In T5 these are the model itself, its FFNs and its classification head.
        """
        return False


class FFNT5Model(FFNT5Mixin, transformers.T5Model):
    """T5 without a head."""


class FFNT5ForConditionalGeneration(FFNT5Mixin, transformers.T5ForConditionalGeneration):
    """T5 as a language model: the encoder reads a text with gaps, the decoder writes what they hide."""


class FFNT5ForSequenceClassification(FFNT5Mixin, transformers.T5ForSequenceClassification):
    """T5 with transformers' classification head on the last token of the decoder.

    Encoder and decoder read the same text, the decoder one token behind, as in BART (Lewis et al. 2020). The
    stock class looks for the last ``</s>`` and refuses a batch whose texts differ in how many they have; here
    the last token that is no padding is pooled, which of a text that ends in ``</s>`` is the same.
    """

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = False,
        **kwargs: Any,
    ) -> Seq2SeqSequenceClassifierOutput:
        """Classify texts; arguments, loss and output are those of the stock class, but for the cache.

        Args:
            input_ids: (B, T); embeddings in their place are refused, as by the stock class.
            attention_mask: (B, T), 0 on padding; None where tokens are padding by their id alone.
            decoder_input_ids: (B, T); by default ``input_ids``, one token later.
            decoder_inputs_embeds: (B, T, D), in place of ``decoder_input_ids``.
            labels: (B,) classes, (B, C) zeros and ones, or numbers to predict, as ``problem_type`` says.
            use_cache: Whether to return keys and values of the decoder; the stock class does by default.
            **kwargs: Of ``T5Model``.

        Returns:
            ``logits`` (B, C), the mean ``loss`` of the labels, and what ``T5Model`` returns.

        Raises:
            NotImplementedError: For ``inputs_embeds`` without ``input_ids``.
        """
        if input_ids is None:
            raise NotImplementedError("a T5 finds the end of a text by its tokens; pass input_ids")
        if decoder_input_ids is None and decoder_inputs_embeds is None:
            decoder_input_ids = self._shift_right(input_ids)
        outputs = self.transformer(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_inputs_embeds=decoder_inputs_embeds,
            use_cache=use_cache and labels is None,
            **kwargs,
        )
        states = outputs.last_hidden_state
        padding: Any = self.config.pad_token_id
        is_text = input_ids.ne(padding) if attention_mask is None else attention_mask.ne(0)
        last = is_text.long().cumsum(1).argmax(1)
        logits = self.classification_head(states[torch.arange(len(last), device=last.device), last])
        loss = None if labels is None else self.loss_function(labels, logits, self.config)
        shared = {name: value for name, value in outputs.items() if name != "last_hidden_state"}
        return Seq2SeqSequenceClassifierOutput(loss=loss, logits=logits, **shared)


class FFNLlamaModel(FFNVariantMixin, transformers.LlamaModel):
    """Llama without a head."""

    config_class = FFNLlamaConfig


class FFNLlamaForCausalLM(FFNVariantMixin, transformers.LlamaForCausalLM):
    """Llama as a language model."""

    config_class = FFNLlamaConfig


class _LlamaForSequenceClassification(transformers.LlamaForSequenceClassification):
    """The stock class by a constructor that names its backbone.

    The stock one asks ``AutoModel``, which knows no class whose code came with the weights.
    """

    def __init__(self, config: FFNLlamaConfig):
        transformers.LlamaPreTrainedModel.__init__(self, config)
        self.num_labels = config.num_labels
        self.model = transformers.LlamaModel(config)
        self.score = nn.Linear(config.hidden_size, config.num_labels or 0, bias=False)
        self.post_init()


class FFNLlamaForSequenceClassification(FFNVariantMixin, _LlamaForSequenceClassification):
    """Llama with transformers' classification head on the last token."""

    config_class = FFNLlamaConfig
