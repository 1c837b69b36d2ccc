"""What is scored, what comes out, and batches of texts of one length.

In such a batch nothing is padded, no attention mask is needed and no score depends on what it was batched
with. All token ids go to the device at once, and nothing comes back before all texts are scored.

Shapes: S texts of a batch, M scored tokens of each, T tokens of each, R rows of logits, V vocab_size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from eval.memory import Budget, to_device
from eval.protocol import Masking


@dataclass(frozen=True)
class ScoredText:
    """The tokens of one text, and which of them are scored.

    Attributes:
        input_ids: All tokens, special ones included.
        start: Index of the first scored token; at least 1 for a causal model, which cannot predict the first.
        end: Index behind the last scored token.
        words: For each token the number of its word, which only ``within_word_l2r`` needs.
    """

    input_ids: Sequence[int]
    start: int
    end: int
    words: Sequence[int] | None = None


class Scores(NamedTuple):
    """Scores of N texts, in the order in which the texts were given.

    Attributes:
        log_likelihood: (N,) float64, in nats, summed over the scored tokens.
        is_greedy: (N,) bool, true where every scored token is the model's first choice.
    """

    log_likelihood: np.ndarray
    is_greedy: np.ndarray


class TokenTable:
    """Keeps the scores of tokens on the device, in any order of texts, and sums them in fp64.

    States wait until there are enough of them for the head, which is slow for a few: with a vocabulary of
    10,000 a row of 32 costs 240 us, one of 256 costs 130.

    Args:
        num_texts: How many texts are scored.
        budget: Rows of logits at a time.
        head: From (R, D) states to (R, V) logits.
    """

    def __init__(self, num_texts: int, budget: Budget, head: Callable[[Tensor], Tensor]) -> None:
        self._num_texts, self._budget, self._head = num_texts, budget, head
        self._owners, self._scored = list[np.ndarray](), list[tuple[Tensor, Tensor]]()
        self._waiting: list[tuple[Tensor, Tensor]] = []

    def put(self, owners: np.ndarray, states: Tensor, targets: Tensor) -> None:
        """Take the (R, D) states at which the (R,) targets of the texts of these numbers are predicted."""
        self._owners.append(owners)
        self._waiting.append((states, targets))
        if sum(len(targets) for _, targets in self._waiting) >= self._budget.head_rows:
            self._score_waiting()

    def _score_waiting(self) -> None:
        if self._waiting:
            states, targets = (torch.cat(parts) for parts in zip(*self._waiting, strict=True))
            self._waiting.clear()
            self._scored.append(target_scores(self._head, states, targets, self._budget))

    def scores(self) -> Scores:
        """Return the sums of all texts."""
        self._score_waiting()
        return sum_by_owner(np.concatenate(self._owners), *to_host(self._scored), self._num_texts)


def to_host(scored: Sequence[tuple[Tensor, Tensor]]) -> tuple[np.ndarray, np.ndarray]:
    """Fetch log-probabilities and whether tokens are first choices, (R,) each, in one copy."""
    log_probs, greedy = (torch.cat(parts) for parts in zip(*scored, strict=True))
    both = torch.stack((log_probs, greedy.to(log_probs.dtype))).cpu().numpy()
    return both[0], both[1].astype(bool)


def sum_by_owner(owners: np.ndarray, log_probs: np.ndarray, greedy: np.ndarray, num_texts: int) -> Scores:
    """Sum (R,) token scores over the tokens of each text, in fp64; ``owners`` (R,) are the texts' indices."""
    total = np.bincount(owners, weights=log_probs.astype(np.float64), minlength=num_texts)
    misses = np.bincount(owners, weights=~greedy, minlength=num_texts)
    return Scores(total, misses == 0)


def target_scores(
    head: Callable[[Tensor], Tensor], states: Tensor, targets: Tensor, budget: Budget
) -> tuple[Tensor, Tensor]:
    """Return (R,) log-probabilities of the targets and whether each is the first choice.

    Args:
        head: From (R, D) states to (R, V) logits, in whatever precision; the softmax is taken in fp32.
        states: (R, D).
        targets: (R,) token ids.
        budget: Rows of logits at a time.
    """
    log_probs, greedy = list[Tensor](), list[Tensor]()
    for rows in budget.parts_for_head(len(states)):
        logits, labels = head(states[rows]).float(), targets[rows]
        log_probs.append(-F.cross_entropy(logits, labels, reduction="none"))
        greedy.append(logits.gather(1, labels[:, None])[:, 0] >= logits.amax(1))
    return torch.cat(log_probs), torch.cat(greedy)


class Batch(NamedTuple):
    """S texts that have T tokens each, of which the same are scored.

    Attributes:
        indices: (S,) which texts.
        ids: (S, T).
        start: Index of the first scored token.
        end: Index behind the last one.
        words: (S, T) the word of each token; None where nobody asked for it.
    """

    indices: np.ndarray
    ids: Tensor
    start: int
    end: int
    words: Tensor | None = None

    @property
    def owners(self) -> np.ndarray:
        """(S * M,) the text of each scored token, text after text."""
        return np.repeat(self.indices, self.end - self.start)


def batches_of_one_length(
    texts: Sequence[ScoredText],
    budget: Budget,
    device: torch.device,
    copies: bool = False,
    masking: Masking = "original",
) -> Iterator[Batch]:
    """Batch texts of one length and scored part, longest first: what does not fit fails at once.

    Args:
        texts: All texts.
        budget: Of a batch; a single text may have more.
        device: Where the texts go, at once.
        copies: Count every text once for each of its scored tokens.
        masking: Whether the words of the tokens are needed.
    """
    # Texts of 5, 3, 5 and 5 tokens, 10 tokens a batch: the batches are the texts 0 and 2, then 3, then 1.
    groups = defaultdict(list)
    for index, text in enumerate(texts):
        groups[len(text.input_ids), text.start, text.end].append(index)
    ordered = sorted(groups.items(), reverse=True)
    order = [texts[index] for _, group in ordered for index in group]
    ids = to_device(_flat([text.input_ids for text in order]), device)
    with_words = masking == "within_word_l2r"
    words = to_device(_flat([text.words or () for text in order]), device) if with_words else None
    place = 0
    for (length, start, end), group in ordered:
        num_scored, first = end - start, 0
        while first < len(group):
            size = budget.texts(length, num_scored if copies else 1)
            indices = np.array(group[first : first + size])
            part = slice(place, place + len(indices) * length)
            yield Batch(
                indices,
                ids[part].view(-1, length),
                start,
                end,
                None if words is None else words[part].view(-1, length),
            )
            first, place = first + size, part.stop


def _flat(rows: Sequence[Sequence[int]]) -> np.ndarray:
    return np.fromiter((number for row in rows for number in row), np.int64, count=sum(map(len, rows)))


def masked_tokens(batch: Batch, masking: Masking) -> Tensor:
    """Return which tokens of each copy are masked: (S, M, T) bool. Copy m is scored at token start + m.

    ``original`` masks the scored token only (Salazar et al. 2020, https://aclanthology.org/2020.acl-main.240),
    ``within_word_l2r`` also the later tokens of its word (Kauf and Ivanova 2023,
    https://aclanthology.org/2023.acl-short.80), which would give it away.
    """
    # Of <s> un happy dog </s> three tokens are scored, the first two of one word. Rows are copies:
    #   original          0 1 0 0 0 / 0 0 1 0 0 / 0 0 0 1 0
    #   within_word_l2r   0 1 1 0 0 / 0 0 1 0 0 / 0 0 0 1 0: happy would give un away
    columns = torch.arange(batch.ids.shape[1], device=batch.ids.device)
    scored = columns[batch.start : batch.end]
    itself = columns == scored[:, None]
    if masking == "original":
        return itself.expand(len(batch.indices), -1, -1)
    assert batch.words is not None
    later = (columns > scored[:, None]) & (columns < batch.end)
    words = batch.words
    return itself | (later & (words[:, None, :] == words[:, batch.start : batch.end, None]))
