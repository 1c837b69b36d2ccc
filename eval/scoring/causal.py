"""Log-likelihoods with prefixes that texts share computed once: a row of a batch is a tree of tokens.

Many sentences of minimal pairs begin as others do. Each token of a tree sees its ancestors and itself, by a
mask of four dimensions, and has the position that it has in its text; the head sees each token once, whatever
follows it. The last token of a text predicts nothing and is left out unless another text goes on behind it.

Shapes: B trees of a batch, L nodes of the largest, R nodes that predict something, E predictions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from eval.scoring.plain import ScoredText, Scores, split_rows, sum_by_owner
from eval.scoring.prefix_trees import PrefixTrees, build_prefix_trees

TREE_TOKENS = 96
# Texts whose trees are built at a time; of long texts a table of that many rows is large.
_TABLE_TOKENS = 1 << 21


def shared_causal_scores(
    model: PreTrainedModel, texts: Sequence[ScoredText], batch_tokens: int, tree_tokens: int = TREE_TOKENS
) -> Scores:
    """Score texts with a causal model.

    Args:
        model: Takes a mask of four dimensions and position ids, and has a head that is its output embedding.
        texts: What to score; nodes (tokens before the last scored one) no more than ``longest_tree``.
        batch_tokens: Nodes per forward pass.
        tree_tokens: Nodes of a tree.
    """
    ids = [list(text.input_ids[: text.end]) for text in texts]
    starts = [text.start for text in texts]
    size = max(1, _TABLE_TOKENS // max(map(len, ids), default=1))
    total, greedy = np.zeros(len(texts)), np.ones(len(texts), dtype=bool)
    for first in range(0, len(texts), size):
        part = slice(first, first + size)
        trees = build_prefix_trees(ids[part], starts[part], tree_tokens, longest_tree(model))
        total[part], greedy[part] = _score_trees(model, trees, len(ids[part]), batch_tokens)
    return Scores(total, greedy)


def longest_tree(model: PreTrainedModel) -> int:
    """Return how many nodes a row may have: local layers, which count places in the row, see no further."""
    config = model.config
    limits = [getattr(config, name, None) for name in ("max_position_embeddings", "sliding_window")]
    if "local" in getattr(config, "attention_layers", ()):
        limits.append(config.window_size)
    return min((limit for limit in limits if limit), default=_TABLE_TOKENS)


def _score_trees(model: PreTrainedModel, trees: PrefixTrees, num_texts: int, batch_tokens: int) -> Scores:
    scored = []
    for first, last in _batches(np.diff(trees.tree_start), batch_tokens):
        begin, end = np.searchsorted(trees.parent, trees.tree_start[[first, last]])
        states = _parent_states(model, trees, slice(first, last), trees.parent[begin:end])
        scored.append(_edge_scores(model, states, trees.edge_start[begin : end + 1], trees.target))
    log_probs, greedy = (torch.cat(parts).cpu().numpy() for parts in zip(*scored, strict=True))
    edges = trees.edge_of_token
    return sum_by_owner(trees.text_of_token, log_probs[edges], greedy[edges], num_texts)


def _batches(sizes: np.ndarray, batch_tokens: int) -> Iterator[tuple[int, int]]:
    """Split trees, largest first, into batches whose rows have the length of their first tree."""
    first = 0
    while first < len(sizes):
        last = min(len(sizes), first + max(1, batch_tokens // int(sizes[first])))
        yield first, last
        first = last


def _parent_states(model: PreTrainedModel, trees: PrefixTrees, batch: slice, parents: np.ndarray) -> Tensor:
    """Return the (R, D) last hidden states of a batch's nodes that predict something."""
    start, end = trees.tree_start[:-1][batch, None], trees.tree_start[1:][batch, None]
    node = start + np.arange((end - start).max())
    exists = node < end
    node = np.where(exists, node, start)  # padding repeats the root
    inputs = (
        trees.token[node],
        trees.depth[node],
        np.where(exists, trees.subtree_end[node] - start, node.shape[1]),
        np.flatnonzero(exists)[parents - start[0, 0]],
    )
    ids, positions, subtree_end, rows = (torch.from_numpy(array).to(model.device) for array in inputs)
    place = torch.arange(ids.shape[1], device=model.device)
    # Nodes come before their descendants, which are in one piece. A mask of numbers serves all backends.
    sees = (place <= place[:, None]) & (place[:, None] < subtree_end[:, None])
    mask = torch.zeros(sees.shape, dtype=model.dtype, device=model.device)
    mask.masked_fill_(~sees, torch.finfo(model.dtype).min)
    states = model.base_model(
        input_ids=ids, attention_mask=mask[:, None], position_ids=positions, use_cache=False
    ).last_hidden_state
    return states.flatten(0, 1)[rows]


def _edge_scores(
    model: PreTrainedModel, states: Tensor, edge_start: np.ndarray, target: np.ndarray
) -> tuple[Tensor, Tensor]:
    """Return (E,) log-probabilities of the targets behind R nodes, and whether each is the first choice.

    Args:
        model: Its output embedding is the head.
        states: (R, D).
        edge_start: (R + 1,) first edge of each node; the softmax is taken once for all edges of one.
        target: Token ids of all edges.
    """
    head: Any = model.get_output_embeddings()
    log_probs, greedy = [], []
    first = 0
    for rows in split_rows(states):
        starts = edge_start[first : first + len(rows) + 1]
        first += len(rows)
        indices = (
            np.repeat(np.arange(len(rows)), np.diff(starts)),
            target[starts[0] : starts[-1]],
            target[starts[:-1]],
        )
        row, wanted, any_wanted = (torch.from_numpy(array).to(states.device) for array in indices)
        logits = head(rows).float()
        normaliser = F.cross_entropy(logits, any_wanted, reduction="none")
        normaliser += logits.gather(1, any_wanted[:, None])[:, 0]
        found = logits[row, wanted]
        log_probs.append(found - normaliser[row])
        greedy.append(found >= logits.amax(1)[row])
    return torch.cat(log_probs), torch.cat(greedy)
