"""Masked-language-model corruption of whole batches (Devlin et al. 2019), new at every step."""

from __future__ import annotations

import numpy as np

IGNORE = -100
"""Target of a position that is not predicted."""


class Masker:
    """Chooses tokens to predict and replaces 80% by ``<mask>``, 10% by another token, 10% by nothing.

    Args:
        vocab_size: Tokens of the vocabulary.
        special_ids: Never chosen, and never drawn as a replacement.
        mask_token_id: The mask.
        mlm_probability: Share of the ordinary tokens that is predicted.
    """

    def __init__(
        self, vocab_size: int, special_ids: list[int], mask_token_id: int, mlm_probability: float
    ) -> None:
        self.is_special = np.zeros(vocab_size, bool)
        self.is_special[special_ids] = True
        self.ordinary_ids = np.flatnonzero(~self.is_special)
        self.mask_token_id = mask_token_id
        self.mlm_probability = mlm_probability

    def __call__(self, input_ids: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Corrupt a batch.

        Args:
            input_ids: (B, T) token ids.
            rng: Source of all randomness; the result is a function of it and the batch.

        Returns:
            Corrupted ids and targets, (B, T) int64 each; targets are ``IGNORE`` where nothing is predicted.
        """
        corrupted = input_ids.astype(np.int64)
        ids, flat = np.ravel(input_ids), np.ravel(corrupted)
        draws = rng.random(input_ids.shape, dtype=np.float32).ravel()
        probability = np.float32(self.mlm_probability)
        # Few places are below it: whatever is left to decide is decided for those alone.
        places = np.flatnonzero(draws < probability)
        places = places[~self.is_special[ids[places]]]
        # One draw does for both choices: given that it is below p, draw / p is again uniform.
        share = draws[places] / probability
        targets = np.full(input_ids.shape, IGNORE)
        np.ravel(targets)[places] = ids[places]
        flat[places[share < 0.8]] = self.mask_token_id
        replaced = places[(share >= 0.8) & (share < 0.9)]
        flat[replaced] = rng.choice(self.ordinary_ids, len(replaced))
        return corrupted, targets
