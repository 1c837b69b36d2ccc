"""Log-likelihoods with prefixes that texts share computed once: a row of a batch is a tree of tokens.

Many sentences of minimal pairs begin as others do. Each token of a tree sees its ancestors and itself, by a
mask of four dimensions, and has the position that it has in its text; the head sees each token once, whatever
follows it. The last token of a text predicts nothing and is left out unless another text goes on behind it.

Shapes: B trees of a batch, L nodes of the largest, R nodes that predict something, E predictions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from eval.models.memory import Budget
from eval.models.transfers import all_to_device
from eval.scoring.plain import ScoredText, Scores, sum_by_owner, to_host
from eval.scoring.prefix_trees import PrefixTrees, build_prefix_trees

TREE_TOKENS = 96
# Texts whose trees are built at a time; of long texts a table of that many rows is large.
_TABLE_TOKENS = 1 << 21


def shared_causal_scores(
    model: PreTrainedModel, texts: Sequence[ScoredText], budget: Budget, tree_tokens: int = TREE_TOKENS
) -> Scores:
    """Score texts with a causal model.

    Args:
        model: Takes a mask of four dimensions and position ids, and has a head that is its output embedding.
        texts: What to score; nodes (tokens before the last scored one) no more than ``longest_tree``.
        budget: Of a forward pass, in nodes.
        tree_tokens: Nodes of a tree.
    """
    ids = [list(text.input_ids[: text.end]) for text in texts]
    starts = [text.start for text in texts]
    size = max(1, _TABLE_TOKENS // max(map(len, ids), default=1))
    total, greedy = np.zeros(len(texts)), np.ones(len(texts), dtype=bool)
    for first in range(0, len(texts), size):
        part = slice(first, first + size)
        trees = build_prefix_trees(ids[part], starts[part], tree_tokens, longest_tree(model))
        total[part], greedy[part] = _score_trees(model, trees, len(ids[part]), budget)
    return Scores(total, greedy)


def longest_tree(model: PreTrainedModel) -> int:
    """Return how many nodes a row may have: local layers, which count places in the row, see no further."""
    config = model.config
    limits = [getattr(config, name, None) for name in ("max_position_embeddings", "sliding_window")]
    if "local" in getattr(config, "attention_layers", ()):
        limits.append(config.window_size)
    return min((limit for limit in limits if limit), default=_TABLE_TOKENS)


def _score_trees(model: PreTrainedModel, trees: PrefixTrees, num_texts: int, budget: Budget) -> Scores:
    scored = []
    for first, last in _batches(np.diff(trees.tree_start), budget):

        def score(some: slice, first: int = first) -> tuple[Tensor, Tensor]:
            return _score_batch(model, trees, slice(first + some.start, first + some.stop), budget)

        scored += budget.fit(last - first, score)
    log_probs, greedy = to_host(scored)
    edges = trees.edge_of_token
    return sum_by_owner(trees.text_of_token, log_probs[edges], greedy[edges], num_texts)


def _batches(sizes: np.ndarray, budget: Budget) -> Iterator[tuple[int, int]]:
    """Split trees, largest first, into batches whose rows have the length of their first tree."""
    first = 0
    while first < len(sizes):
        length = int(sizes[first])
        last = min(len(sizes), first + budget.texts(length))
        yield first, last
        first = last


def _score_batch(
    model: PreTrainedModel, trees: PrefixTrees, batch: slice, budget: Budget
) -> tuple[Tensor, Tensor]:
    """Return (E,) log-probabilities of what some trees predict, and whether each is the first choice."""
    begin, end = np.searchsorted(trees.parent, trees.tree_start[[batch.start, batch.stop]])
    start, stop = trees.tree_start[:-1][batch, None], trees.tree_start[1:][batch, None]
    node = start + np.arange((stop - start).max())
    exists = node < stop
    node = np.where(exists, node, start)  # padding repeats the root
    edge_start = trees.edge_start[begin : end + 1]
    edges = slice(edge_start[0], edge_start[-1])
    arrays = (
        trees.token[node],
        trees.depth[node],
        np.where(exists, trees.subtree_end[node] - start, node.shape[1]),
        np.flatnonzero(exists)[trees.parent[begin:end] - start[0, 0]],
        np.repeat(np.arange(end - begin), np.diff(edge_start)),
        trees.target[edges],
        trees.target[edge_start[:-1]],
    )
    ids, positions, subtree_end, rows, row, wanted, any_wanted = all_to_device(arrays, model.device)
    states = _states(model, ids, positions, subtree_end).flatten(0, 1)[rows]
    return _edge_scores(model, states, edge_start - edges.start, _Edges(row, wanted, any_wanted), budget)


def _states(model: PreTrainedModel, ids: Tensor, positions: Tensor, subtree_end: Tensor) -> Tensor:
    """Return the (B, L, D) last hidden states of trees.

    Args:
        model: The model.
        ids: (B, L) tokens.
        positions: (B, L) of each in its texts.
        subtree_end: (B, L) the place behind a node's last descendant.
    """
    place = torch.arange(ids.shape[1], device=ids.device)
    # Nodes come before their descendants, which are in one piece. A mask of numbers serves all backends.
    sees = (place <= place[:, None]) & (place[:, None] < subtree_end[:, None])
    mask = torch.zeros(sees.shape, dtype=model.dtype, device=ids.device)
    mask.masked_fill_(~sees, torch.finfo(model.dtype).min)
    return model.base_model(
        input_ids=ids, attention_mask=mask[:, None], position_ids=positions, use_cache=False
    ).last_hidden_state


class _Edges(NamedTuple):
    """What R nodes predict.

    Attributes:
        row: (E,) which node predicts it.
        wanted: (E,) token ids.
        any_wanted: (R,) the first token id of each node.
    """

    row: Tensor
    wanted: Tensor
    any_wanted: Tensor


def _edge_scores(
    model: PreTrainedModel, states: Tensor, edge_start: np.ndarray, edges: _Edges, budget: Budget
) -> tuple[Tensor, Tensor]:
    """Return (E,) log-probabilities of the targets behind R nodes, and whether each is the first choice.

    Args:
        model: Its output embedding is the head.
        states: (R, D).
        edge_start: (R + 1,) first edge of each node; the softmax is taken once for all edges of one.
        edges: What the nodes predict.
        budget: Rows of logits at a time.
    """
    head: Any = model.get_output_embeddings()

    def score(rows: slice) -> tuple[Tensor, Tensor]:
        own = slice(edge_start[rows.start], edge_start[rows.stop])
        row, wanted, any_wanted = edges.row[own] - rows.start, edges.wanted[own], edges.any_wanted[rows]
        logits = head(states[rows]).float()
        normaliser = F.cross_entropy(logits, any_wanted, reduction="none")
        normaliser += logits.gather(1, any_wanted[:, None])[:, 0]
        found = logits[row, wanted]
        return found - normaliser[row], found >= logits.amax(1)[row]

    scored = list(budget.fit(len(states), score, budget.rows_at_once(len(states))))
    log_probs, greedy = (torch.cat(parts) for parts in zip(*scored, strict=True))
    return log_probs, greedy
