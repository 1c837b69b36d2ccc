"""What is chosen to go."""

from __future__ import annotations

import torch

from inside.ffn.pruning import weakest, weakest_units


def test_the_weakest_go_first_and_larger_shares_hold_smaller_ones():
    importance = torch.randperm(60).view(5, 12).double()
    before = torch.zeros(5, 12, dtype=torch.bool)
    for share in (0.0, 0.1, 0.25, 0.5, 0.99, 1.0):
        chosen = weakest(importance, share)
        assert torch.equal(chosen, importance < round(share * 60))
        assert (chosen | ~before).all()
        before = chosen
    assert int(weakest(torch.zeros(4, 4), 0.5).sum()) == 8  # ties are broken, not all taken


def test_units_go_with_all_edges_that_leave_them():
    importance = torch.tensor([[3.0, 0.1, 4.0, 0.0], [0.0, 0.2, 0.0, 1.0]])
    chosen = weakest_units(importance, 0.5)
    assert torch.equal(chosen, torch.tensor([[False, True, False, True]] * 2))
    assert torch.equal(weakest_units(importance[:1], 0.5), torch.tensor([[False, True, False, True]]))
