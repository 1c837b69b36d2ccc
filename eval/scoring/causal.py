"""Log-likelihoods with prefixes that texts share computed once: a row of a batch is a tree of tokens.

Many sentences of minimal pairs begin as others do. Each token of a tree sees its ancestors and itself, by a
mask of four dimensions, and has the position that it has in its text; the head sees each token once, whatever
follows it. The last token of a text predicts nothing and is left out unless another text goes on behind it.

Sorted texts that share a prefix are neighbours, so that a text adds to its tree what it does not share with
the one before. A trie of thousands of texts has one root; it is cut into trees small enough for one row of a
batch by starting anew, prefix included, where a text would make a tree too large.

An example, of three texts of which all tokens but ``<s>`` are scored. Nodes are numbered, the last tokens of
texts are none::

    <s>0 -+- a1 --- dog2 --- ran               text 0: <s> a dog ran
          +- the3 - cat4 -+- ran5 - off        text 1: <s> the cat ran off
                          +- sat               text 2: <s> the cat sat

    subtree_end  6 3 3 6 6 6                of the nodes 0 to 5; what is below ``a`` ends before node 3
    edges        a the | dog | ran | cat | ran sat | off        behind each node; numbered 0 to 7
    parent       0       1     2     3     4         5
    edge_start   0       2     3     4     5         7     (8)
    edges of text 2: 1 4 6 (the, cat, sat), of which it shares 1 and 4 with text 1

Shapes: B trees of a batch, L nodes of the largest, R nodes that predict something, E predictions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedModel

from eval.memory import Budget, all_to_device
from eval.scoring.text_batches import ScoredText, Scores, sum_by_owner, to_host

TREE_TOKENS = 96
# Texts whose trees are built at a time; of long texts a table of that many rows is large.
_TABLE_TOKENS = 1 << 21


def shared_causal_scores(
    model: PreTrainedModel, texts: Sequence[ScoredText], budget: Budget, tree_tokens: int = TREE_TOKENS
) -> Scores:
    """Score texts with a causal model.

    Args:
        model: Takes a mask of four dimensions and position ids, and has a head that is its output embedding.
        texts: What to score.
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
    """Return how many nodes a tree of several texts may have: local layers count places in the row.

    A longer text is a row of its own, in which every place is that in the text.
    """
    config = model.config
    limits = [getattr(config, name, None) for name in ("max_position_embeddings", "sliding_window")]
    if "local" in getattr(config, "attention_layers", ()):
        limits.append(config.window_size)
    return min((limit for limit in limits if limit), default=_TABLE_TOKENS)


def _score_trees(model: PreTrainedModel, trees: PrefixTrees, num_texts: int, budget: Budget) -> Scores:
    batches = _batches(np.diff(trees.tree_start), budget)
    log_probs, greedy = to_host([_score_batch(model, trees, batch, budget) for batch in batches])
    edges = trees.edge_of_token
    return sum_by_owner(trees.text_of_token, log_probs[edges], greedy[edges], num_texts)


def _batches(sizes: np.ndarray, budget: Budget) -> Iterator[slice]:
    """Split trees, largest first, into batches whose rows have the length of their first tree."""
    first = 0
    while first < len(sizes):
        length = int(sizes[first])
        last = min(len(sizes), first + budget.texts(length))
        yield slice(first, last)
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
    ids, positions, subtree_end, rows, *edge_arrays = all_to_device(arrays, model.device)
    states = _states(model, ids, positions, subtree_end).flatten(0, 1)[rows]
    return _edge_scores(model, states, edge_start - edges.start, edge_arrays, budget)


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


def _edge_scores(
    model: PreTrainedModel, states: Tensor, edge_start: np.ndarray, edges: list[Tensor], budget: Budget
) -> tuple[Tensor, Tensor]:
    """Return (E,) log-probabilities of the targets behind R nodes, and whether each is the first choice.

    Args:
        model: Its output embedding is the head.
        states: (R, D).
        edge_start: (R + 1,) first edge of each node; the softmax is taken once for all edges of one.
        edges: (E,) which node predicts each target, (E,) the targets' token ids, and (R,) the first of each
            node's.
        budget: Rows of logits at a time.
    """
    head: Any = model.get_output_embeddings()
    row_of_edge, targets, first_targets = edges
    log_probs, greedy = list[Tensor](), list[Tensor]()
    for rows in budget.parts_for_head(len(states)):
        part = slice(edge_start[rows.start], edge_start[rows.stop])
        row, target, first = row_of_edge[part] - rows.start, targets[part], first_targets[rows]
        logits = head(states[rows]).float()
        # The normaliser of the softmax, as cross-entropy of any one target plus its logit: see ``Budget``.
        normaliser = F.cross_entropy(logits, first, reduction="none")
        normaliser += logits.gather(1, first[:, None])[:, 0]
        scores = logits[row, target]
        log_probs.append(scores - normaliser[row])
        greedy.append(scores >= logits.amax(1)[row])
    return torch.cat(log_probs), torch.cat(greedy)


@dataclass(frozen=True)
class PrefixTrees:
    """Trees of N texts, largest first, with what a causal model needs to score them.

    A *node* is a token that something follows; nodes are numbered tree by tree, in each tree parents before
    children and every subtree in one piece. An *edge* leads from a node to a token that is scored behind it;
    edges are numbered in the order of their nodes.

    Attributes:
        tree_start: (K + 1,) first node of each of K trees, and the number of nodes.
        token: (n,) token id of each node.
        depth: (n,) how many tokens precede it, which is its position.
        subtree_end: (n,) the number behind that of its last descendant.
        parent: (P,) nodes that have edges, ascending.
        edge_start: (P + 1,) first edge of each of them, and the number of edges.
        target: (E,) token id at which each edge ends.
        text_of_token: (R,) for each scored token of each text the text's index.
        edge_of_token: (R,) and its edge; texts with a common prefix share edges.
    """

    tree_start: np.ndarray
    token: np.ndarray
    depth: np.ndarray
    subtree_end: np.ndarray
    parent: np.ndarray
    edge_start: np.ndarray
    target: np.ndarray
    text_of_token: np.ndarray
    edge_of_token: np.ndarray


def build_prefix_trees(
    texts: Sequence[list[int]], starts: Sequence[int], tree_tokens: int, longest: int
) -> PrefixTrees:
    """Build the trees of texts whose tokens from ``starts`` on are scored.

    Args:
        texts: N lists of token ids, each up to its last scored token.
        starts: For each the index of its first scored token, at least 1.
        tree_tokens: Nodes at which a tree is full; one that begins with a long text may grow to twice its
            length, so that the continuations of a long context share it.
        longest: Nodes that no tree of several texts may exceed.
    """
    order = sorted(range(len(texts)), key=texts.__getitem__)
    ids, lengths = _pad([texts[index] for index in order])
    shared = _shared_with_the_one_before(ids, lengths)
    tree, sizes = _cut(lengths - 1, shared, tree_tokens, longest)

    # Largest trees first, so that those of a batch are of like size; the texts of a tree stay in their order.
    rows = np.lexsort((tree, -sizes[tree]))
    ids, lengths, shared, tree = ids[rows], lengths[rows], shared[rows], tree[rows]
    text_index = np.array(order)[rows]
    begins = np.r_[True, tree[1:] != tree[:-1]]
    shared[begins] = 0

    # The example from here on, one row a text: shared 0 1 3 tokens with the row above, first_new 0 1 3, and
    # node, which has the number from above where a token is shared (columns behind a text mean nothing):
    #   0 1 2 .      <s> a dog
    #   0 3 4 5      the cat ran are new
    #   0 3 4 .      nothing is new, as sat is the last token
    column = np.arange(ids.shape[1])
    # Of the tokens that a text shares with the one before, the last of that one is no node yet.
    first_new = np.minimum(shared, np.r_[0, lengths[:-1] - 1])
    is_node = (column >= first_new[:, None]) & (column < lengths[:, None] - 1)
    node = _number(is_node)
    num_nodes = is_node.sum(1)
    ends = num_nodes.cumsum()
    # A node's subtree ends at the first later text that does not share it, where that text's new nodes begin.
    leaves = np.where(column >= first_new[:, None], (ends - num_nodes)[:, None], ends[-1])
    leaves = np.minimum.accumulate(leaves[::-1], 0)[::-1]
    subtree_end = np.vstack([leaves[1:], np.full_like(leaves[:1], ends[-1])])[is_node]

    scored = (column >= np.array(starts)[text_index][:, None]) & (column < lengths[:, None])
    is_token = (column >= shared[:, None]) & (column < lengths[:, None])
    token = _number(is_token)  # of all tokens, leaves included
    is_target = np.zeros(is_token.sum(), dtype=bool)
    is_target[token[scored]] = True
    above = np.empty_like(node)
    above[:, 1:], above[:, 0] = node[:, :-1], -1
    from_node, target = above[is_token][is_target], ids[is_token][is_target]
    by_node = np.argsort(from_node, kind="stable")
    edge = np.empty(len(is_target), dtype=np.int64)
    edge[np.flatnonzero(is_target)[by_node]] = np.arange(len(by_node))
    parent, edge_start = np.unique(from_node[by_node], return_index=True)
    return PrefixTrees(
        tree_start=np.r_[(ends - num_nodes)[begins], ends[-1]],
        token=ids[is_node],
        depth=np.broadcast_to(column, ids.shape)[is_node],
        subtree_end=subtree_end,
        parent=parent,
        edge_start=np.r_[edge_start, len(target)],
        target=target[by_node],
        text_of_token=np.broadcast_to(text_index[:, None], ids.shape)[scored],
        edge_of_token=edge[token[scored]],
    )


def _pad(texts: Sequence[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return (N, longest) token ids, right-padded with -1, and (N,) lengths."""
    lengths = np.array([len(text) for text in texts])
    ids = np.full((len(texts), lengths.max()), -1)
    ids[np.arange(ids.shape[1]) < lengths[:, None]] = np.fromiter(chain.from_iterable(texts), dtype=np.int64)
    return ids, lengths


def _shared_with_the_one_before(ids: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return for each row how many tokens it has in common with the row above, from the first on."""
    same = np.logical_and.accumulate(ids[1:] == ids[:-1], 1).sum(1)
    return np.r_[0, np.minimum(same, np.minimum(lengths[1:], lengths[:-1]))]


def _cut(
    num_nodes: np.ndarray, shared: np.ndarray, tree_tokens: int, longest: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return for each text its tree, (N,), and for each tree its number of nodes."""
    new_nodes = num_nodes - np.minimum(np.minimum(shared, num_nodes), np.r_[0, num_nodes[:-1]])
    tree, sizes, limit = [], [0], 0
    for whole, new in zip(num_nodes.tolist(), new_nodes.tolist(), strict=True):
        if sizes[-1] + new > limit:
            sizes.append(whole)
            limit = min(longest, max(tree_tokens, 2 * whole))
        else:
            sizes[-1] += new
        tree.append(len(sizes) - 2)
    return np.array(tree), np.array(sizes[1:])


def _number(is_new: np.ndarray) -> np.ndarray:
    """Number the new entries row by row; an entry that is not new has the number of the nearest above."""
    numbers = np.where(is_new, is_new.cumsum().reshape(is_new.shape) - 1, -1)
    return np.maximum.accumulate(numbers, 0)
