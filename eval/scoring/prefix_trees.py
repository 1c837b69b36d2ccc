"""Texts as trees of tokens, in which a prefix that several texts share is there once.

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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np


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
        longest: Nodes that no tree may exceed; no text may have more either.
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
    for own, new in zip(num_nodes.tolist(), new_nodes.tolist(), strict=True):
        if sizes[-1] + new > limit:
            sizes.append(own)
            limit = min(longest, max(tree_tokens, 2 * own))
        else:
            sizes[-1] += new
        tree.append(len(sizes) - 2)
    return np.array(tree), np.array(sizes[1:])


def _number(is_new: np.ndarray) -> np.ndarray:
    """Number the new entries row by row; an entry that is not new has the number of the nearest above."""
    numbers = np.where(is_new, is_new.cumsum().reshape(is_new.shape) - 1, -1)
    return np.maximum.accumulate(numbers, 0)
