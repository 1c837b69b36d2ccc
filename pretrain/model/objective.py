"""Model and loss in one module: packed documents that do not see each other, logits only where needed.

Three things keep packing exact, so that a document in a row gives the logits it gives alone:
positions start again in every document, attention is limited to the document, and GPT-Neo's local layers
count their window in positions of the row, which inside a document is the same distance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from transformers import PreTrainedModel

from base.families import get_family
from ffn_variants.models import packed_attention
from ffn_variants.models.faster_layers import BIASED, cast_inputs_once, product_dtype, replace_dropouts
from pretrain.model.linear_cross_entropy import linear_cross_entropy


def build_loss(model: PreTrainedModel, family: str, compile_model: bool = False) -> SummedLoss:
    """The loss of a family's batches, as ``BatchSource`` cuts them; arguments as in the two classes below."""
    if get_family(family).objective == "span_corruption":
        return EncoderDecoderLoss(model)
    return PackedLoss(model, family, compile_model)


class SummedLoss(nn.Module):
    """A model, and the sum of the negative log-likelihood of a batch's targets.

    Args:
        model: A language model of a known family.
        attention: Name of what computes its attention, as registered with transformers.
    """

    def __init__(self, model: PreTrainedModel, attention: str) -> None:
        super().__init__()
        self.model = model
        model.set_attn_implementation(attention)
        cast_inputs_once(model)
        replace_dropouts(model)

    def forward(self, target_index: Tensor, target_ids: Tensor, **inputs: Tensor) -> Tensor:
        """Sum the negative log-likelihood of the targets.

        Args:
            target_index: (N,) places of the predicted tokens in the flattened (B * T), none twice.
            target_ids: (N,) the tokens to predict there, or ``IGNORE``.
            inputs: The other arguments of ``features``.

        Returns:
            Sum over the targets that are not ``IGNORE``, in nats.
        """
        output: Any = self.model.get_output_embeddings()
        features = self.features(index=target_index, **inputs)
        return linear_cross_entropy(features, output.weight, output.bias, target_ids)

    def features(self, index: Tensor, **inputs: Tensor) -> Tensor:
        """(N, D) inputs of the output embeddings at the flattened places ``index``."""
        raise NotImplementedError


class PackedLoss(SummedLoss):
    """The summed loss of a packed batch of a model with one stack of layers.

    Args:
        model: A causal or masked language model of a known family.
        family: Its family.
        compile_model: Whether to compile the model without its head, for the shapes of its batches.
    """

    def __init__(self, model: PreTrainedModel, family: str, compile_model: bool = False) -> None:
        super().__init__(model, packed_attention.NAME)
        self.first_position = get_family(family).first_position(model.config.pad_token_id)
        self.is_causal = get_family(family).objective == "causal"
        self._compiled: Callable[..., Any] | None = None
        # On a CPU no graph can draw what is dropped out, so that there it is cut at each layer.
        self._is_one_graph = compile_model and not _drops_out(model)
        if compile_model:  # with torch's own draws, so that the results are the same up to rounding
            torch.compiler.reset()  # a process that trains many models would reach the limit of one function
            forward = model.base_model.forward
            self._compiled = torch.compile(forward, dynamic=False, options={"fallback_random": True})

    def features(  # type: ignore[bad-override]
        self, input_ids: Tensor, position_ids: Tensor, index: Tensor, document_starts: Tensor | None = None
    ) -> Tensor:
        """Compute the inputs of the output embeddings where a token is predicted, and nowhere else.

        Args:
            input_ids: (B, T) packed token ids.
            position_ids: (B, T) positions, 0 at every start of a document and on padding.
            index: (N,) places in the flattened (B * T).
            document_starts: (C + 1,) int32: where in the flattened (B * T) each document starts, padding
                being one, then B * T; flash attention wants them, and they change nothing on a CPU.

        Returns:
            (N, D).
        """
        backbone = self._compiled or self.model.base_model
        hidden = backbone(
            input_ids=input_ids,
            position_ids=position_ids + self.first_position,
            attention_mask=packed_attention.document_mask(
                self.model, position_ids, document_starts, self.is_causal, self._is_one_graph
            ),
            **({"use_cache": False} if self.is_causal else {}),
        ).last_hidden_state.flatten(0, 1)
        hidden = _Rows.apply(hidden, index)
        if self.is_causal:
            return hidden
        head = self.model.lm_head
        return head.layer_norm(F.gelu(head.dense(hidden)))


def _drops_out(model: PreTrainedModel) -> bool:
    config: Any = model.config
    has_dropped = any(module.p for module in model.modules() if isinstance(module, nn.Dropout))
    return has_dropped or bool(getattr(config, "attention_dropout", 0))


class EncoderDecoderLoss(SummedLoss):
    """The summed loss of a packed batch of a T5.

    T5 adds a learnt bias for the distance of two tokens to their score, which is the same wherever in a row a
    document stands; so its positions need no care, and there is one mask for each of its three attentions.

    Args:
        model: A T5 as a language model.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__(model, BIASED)

    def features(  # type: ignore[bad-override]
        self,
        input_ids: Tensor,
        document_ids: Tensor,
        decoder_input_ids: Tensor,
        decoder_document_ids: Tensor,
        index: Tensor,
    ) -> Tensor:
        """Compute the inputs of the output embeddings where a token is predicted, and nowhere else.

        Args:
            input_ids: (B, E) packed token ids of the encoder.
            document_ids: (B, E) number of each token's document.
            decoder_input_ids: (B, T) packed token ids of the decoder.
            decoder_document_ids: (B, T) number of the document that each continues.
            index: (N,) places in the decoder's flattened (B * T).

        Returns:
            (N, D).
        """
        model: Any = self.model
        encoded = model.encoder(
            input_ids=input_ids, attention_mask=self._mask(document_ids, document_ids)
        ).last_hidden_state
        hidden = model.decoder(
            input_ids=decoder_input_ids,
            attention_mask=self._mask(decoder_document_ids, decoder_document_ids, causal=True),
            encoder_hidden_states=encoded,
            encoder_attention_mask=self._mask(decoder_document_ids, document_ids),
            use_cache=False,
        ).last_hidden_state
        hidden = _Rows.apply(hidden.flatten(0, 1), index)
        return hidden * model.config.d_model**-0.5 if model.config.scale_decoder_outputs else hidden

    def _mask(self, queries: Tensor, keys: Tensor, causal: bool = False) -> Tensor:
        """(B, 1, Q, K) numbers to add to scores, from the documents (B, Q) and (B, K) of the tokens."""
        visible = queries[:, :, None] == keys[:, None, :]
        if causal:
            visible = visible.tril()
        # Padding of the decoder may see nothing at all. With finite numbers its weights are all the same, and
        # nobody reads what comes of it; with infinite ones it would be NaN, and so would all gradients. What
        # is finite in float32 only would not stay so under autocast, nor a bias on float16's lowest.
        dtype = self.model.dtype
        if visible.device.type == "cuda":
            dtype = product_dtype(self.model, visible.device)
        lowest = torch.finfo(torch.bfloat16).min if dtype != torch.float16 else torch.finfo(dtype).min / 2
        return torch.zeros_like(visible, dtype=dtype).masked_fill_(~visible, lowest)[:, None]


class _Rows(torch.autograd.Function):
    """Rows of (N, D) at an index without repetitions, which torch's own backward pass does not rely on."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, index: Tensor) -> Tensor:
        ctx.length = len(rows)
        ctx.save_for_backward(index)
        return rows.index_select(0, index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None]:  # type: ignore[bad-override]
        (index,) = ctx.saved_tensors
        return grads[0].new_zeros(ctx.length, grads[0].shape[1]).index_copy_(0, index, grads[0]), None
