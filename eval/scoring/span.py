"""Log-likelihoods of texts by an encoder-decoder that was trained to fill gaps.

Two formulations, both in the terms of its training, where a sentinel stands for a missing span in what the
encoder reads and before that span in what the decoder writes:

- ``span``: all that is scored is one missing span. For ``<s> S </s>`` the encoder reads
  ``<s><extra_id_0></s>`` and the decoder writes ``<extra_id_0> S``, so that the score is the decoder's log
  p(S) by the chain rule, as a causal model's is. What stands before S, a context, is read by the encoder.
  Training leaves out spans of 3 tokens on average, and hardly ever one as long as a sentence, so the model is
  asked for what it has seldom done, and the encoder has nothing to tell.
- ``infilling``: one token at a time is missing; the encoder reads all others and the decoder writes
  ``<extra_id_0> token``. The sum is the pseudo-log-likelihood (Salazar et al. 2020) of such a model. Gaps are
  as short as in training, but a text costs as many passes of the encoder as it has tokens.

Shapes: S texts of a batch, M scored tokens of each, C copies, T tokens, V vocab_size.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from eval.models.memory import Budget
from eval.scoring.plain import Batch, ScoredText, Scores, logits_of, score_batches, score_copies


def span_scores(
    model: PreTrainedModel, texts: Sequence[ScoredText], sentinel_id: int, budget: Budget
) -> Scores:
    """Score texts as one missing span each.

    Args:
        model: An encoder-decoder.
        texts: What to score.
        sentinel_id: The first sentinel.
        budget: Of a forward pass.
    """

    def predict(batch: Batch) -> Tensor:
        gap = torch.full_like(batch.ids[:, :1], sentinel_id)
        scored = batch.ids[:, batch.start : batch.end]
        read = torch.cat([batch.ids[:, : batch.start], gap, batch.ids[:, batch.end :]], 1)
        # The first two tokens that the decoder reads are given; behind the second it predicts the text.
        written = torch.cat([_start(model, len(gap)), gap, scored[:, :-1]], 1)
        inputs = {"input_ids": read, "decoder_input_ids": written, "use_cache": False}
        return logits_of(model, inputs, lambda rows: rows[:, 1:], budget)

    return score_batches(texts, budget, model.device, predict)


def infilling_scores(
    model: PreTrainedModel, texts: Sequence[ScoredText], sentinel_id: int, budget: Budget
) -> Scores:
    """Score texts token by token; arguments as in ``span_scores``."""

    def predict(copies: Tensor, scored: Tensor) -> Tensor:
        written = torch.cat([_start(model, len(copies)), torch.full_like(copies[:, :1], sentinel_id)], 1)
        inputs = {"input_ids": copies, "decoder_input_ids": written, "use_cache": False}
        return logits_of(model, inputs, lambda rows: rows[:, 1:], budget)[:, 0]

    return score_copies(texts, sentinel_id, budget, "original", predict, model.device)


def _start(model: PreTrainedModel, num_texts: int) -> Tensor:
    """(S, 1) tokens that the decoder reads first."""
    return torch.full((num_texts, 1), model.config.decoder_start_token_id, device=model.device)
