"""Model and loss in one module: packed documents that do not see each other, logits only where needed.

Three things keep packing exact, so that a document in a row gives the logits it gives alone:
positions start again in every document, attention is limited to the document, and GPT-Neo's local layers
count their window in positions of the row, which inside a document is the same distance.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedModel

from ffn_variants import objective
from pretrain.config import first_position


class PackedLoss(nn.Module):
    """The summed loss of a packed batch.

    Args:
        model: A causal or masked language model of a known family.
        family: Its family.
    """

    def __init__(self, model: PreTrainedModel, family: str) -> None:
        super().__init__()
        self.model = model
        self.first_position = first_position(family)
        self.is_causal = objective(family) == "causal"

    def forward(
        self, input_ids: Tensor, position_ids: Tensor, target_index: Tensor, target_ids: Tensor
    ) -> Tensor:
        """Sum the negative log-likelihood of the targets.

        Args:
            input_ids: (B, T) packed token ids.
            position_ids: (B, T) positions, 0 at every start of a document and on padding.
            target_index: (N,) places of the predicted tokens in the flattened (B * T).
            target_ids: (N,) the tokens to predict there.

        Returns:
            Sum over the N targets, in nats.
        """
        logits = self.logits(input_ids, position_ids, target_index)
        return F.cross_entropy(logits.float(), target_ids, reduction="sum")

    def logits(self, input_ids: Tensor, position_ids: Tensor, index: Tensor) -> Tensor:
        """Logits (N, V) at the flattened places ``index``; nothing else is projected to the vocabulary."""
        hidden = self.model.base_model(
            input_ids=input_ids,
            position_ids=position_ids + self.first_position,
            attention_mask=self._document_mask(position_ids),
            **({"use_cache": False} if self.is_causal else {}),
        ).last_hidden_state
        return self.model.lm_head(hidden.flatten(0, 1)[index])

    def _document_mask(self, position_ids: Tensor) -> Tensor:
        """(B, 1, T, T) mask of the pairs in one document, as the model's attention wants it.

        transformers passes a 4-D mask on as it is; GPT-Neo's layers narrow it to the past and their window.
        """
        document = (position_ids == 0).cumsum(dim=1)
        same = (document[:, :, None] == document[:, None, :])[:, None]
        if self.model.config._attn_implementation != "eager":
            return same
        return torch.zeros_like(same, dtype=self.model.dtype).masked_fill_(
            ~same, torch.finfo(self.model.dtype).min
        )
