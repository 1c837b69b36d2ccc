"""Trees of tokens against a plain trie of tuples."""

from __future__ import annotations

import random

import numpy as np
import pytest

from eval.scoring.causal import PrefixTrees, build_prefix_trees


def make_texts(seed: int, num_texts: int, longest: int) -> tuple[list[list[int]], list[int]]:
    rng = random.Random(seed)
    texts = [[0] + [rng.randrange(3) for _ in range(rng.randint(1, longest))] for _ in range(num_texts)]
    return texts, [rng.randint(1, len(text) - 1) for text in texts]


def prefixes(trees: PrefixTrees) -> list[tuple[int, ...]]:
    """For each node the tokens from its root to itself, by who encloses whom."""
    roots = np.repeat(trees.tree_start[:-1], np.diff(trees.tree_start))
    return [
        tuple(
            int(trees.token[ancestor])
            for ancestor in range(roots[node], node + 1)
            if trees.subtree_end[ancestor] > node
        )
        for node in range(len(trees.token))
    ]


@pytest.mark.parametrize("tree_tokens", [1, 7, 1000])
@pytest.mark.parametrize("seed", range(2))
def test_every_scored_token_hangs_below_its_own_prefix(seed, tree_tokens):
    texts, starts = make_texts(seed, 60, 8)
    trees = build_prefix_trees(texts, starts, tree_tokens, longest=40)
    found = prefixes(trees)
    np.testing.assert_array_equal(trees.depth, [len(prefix) - 1 for prefix in found])
    node_of_edge = np.repeat(trees.parent, np.diff(trees.edge_start))
    scored = [
        (text, found[node_of_edge[edge]], trees.target[edge])
        for text, edge in zip(trees.text_of_token.tolist(), trees.edge_of_token, strict=True)
    ]
    expected = [
        (index, tuple(text[:place]), text[place])
        for index, (text, start) in enumerate(zip(texts, starts, strict=True))
        for place in range(start, len(text))
    ]
    assert sorted(scored) == sorted(expected)
    assert set(trees.edge_of_token) == set(range(len(trees.target)))


@pytest.mark.parametrize("tree_tokens", [5, 16, 50])
def test_trees_keep_their_limits_and_come_largest_first(tree_tokens):
    texts, starts = make_texts(0, 200, 12)
    trees = build_prefix_trees(texts, starts, tree_tokens, longest=20)
    sizes = np.diff(trees.tree_start)
    longest_text = max(map(len, texts)) - 1
    assert sizes.max() <= min(20, max(tree_tokens, 2 * longest_text))
    assert (np.diff(sizes) <= 0).all()
    assert sizes.sum() == len(trees.token)


def test_continuations_of_a_long_context_share_it():
    context = list(range(100))
    texts = [[*context, 200 + option, 7] for option in range(5)]
    trees = build_prefix_trees(texts, [100] * 5, tree_tokens=10, longest=256)
    assert len(trees.token) == 100 + 5
    assert len(trees.target) == 10


def test_the_example_of_the_docstring():
    bos, a, dog, the, ran, cat, sat, off = range(8)
    texts = [[bos, a, dog, ran], [bos, the, cat, ran, off], [bos, the, cat, sat]]
    trees = build_prefix_trees(texts, [1, 1, 1], 100, 100)
    assert trees.token.tolist() == [bos, a, dog, the, cat, ran]
    assert trees.subtree_end.tolist() == [6, 3, 3, 6, 6, 6]
    assert trees.target.tolist() == [a, the, dog, ran, cat, ran, sat, off]
    assert trees.parent.tolist() == [0, 1, 2, 3, 4, 5]
    assert trees.edge_start.tolist() == [0, 2, 3, 4, 5, 7, 8]
    assert trees.edge_of_token[trees.text_of_token == 2].tolist() == [1, 4, 6]
