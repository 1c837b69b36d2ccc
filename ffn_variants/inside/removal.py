"""Removing a share of a model's edges or neurons, the least active or any, and saying what was removed.

An edge is removed by setting its function to zero, whatever it reads; a neuron, a channel inside an FFN, by
removing every edge that leaves it. Biases stay. The same share is removed from every layer, so that layers
with small outputs lose no more than others.

Shapes: I inputs, O outputs of a layer.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from base.files import write_text
from ffn_variants.inside.edges import edges_of, model_edge_layers, remove_edges
from ffn_variants.models.loading import quiet_transformers

REMOVAL_FILE = "removed.json"
"""Beside a pruned model: what was removed of it."""


@dataclass(frozen=True, kw_only=True)
class Removal:
    """What is removed of one layer.

    Attributes:
        layer: Number of the transformer layer, from 0.
        name: Of the layer of edges in its FFN.
        edges: Edges of the layer.
        removed: How many of them were removed.
    """

    layer: int
    name: str
    edges: int
    removed: int


def weakest(activity: Tensor, share: float) -> Tensor:
    """Choose a share of the edges, those of least activity; (O, I) in, (O, I) true for the chosen out.

    A share chosen holds every smaller one. Of equal edges those that come first are chosen.
    """
    count = round(share * activity.numel())
    chosen = torch.zeros(activity.numel(), dtype=torch.bool)
    chosen[activity.flatten().argsort(stable=True)[:count]] = True
    return chosen.view(activity.shape)


def weakest_neurons(activity: Tensor, share: float) -> Tensor:
    """Choose all edges that leave a share of the inputs, those whose edges move their outputs least."""
    mixes = len(activity) > 1
    of_inputs = activity.square().sum(0).sqrt() if mixes else activity[0]
    return weakest(of_inputs, share).expand(activity.shape).clone()


@torch.no_grad()
def remove(layers: Mapping[nn.Module, Tensor]) -> None:
    """Remove edges of layers, (O, I) true for those to go; nothing is touched where none is."""
    for layer, removed in layers.items():
        if removed.any():
            remove_edges(layer, removed)


def last_layers(model: nn.Module) -> list[nn.Module]:
    """The last layer of edges of each FFN, whose inputs are its neurons."""
    found: dict[int, nn.Module] = {}
    for number, _, layer in model_edge_layers(model):
        found[number] = layer
    return list(found.values())


def removals(model: nn.Module, removed: Mapping[nn.Module, Tensor]) -> list[Removal]:
    """List what is removed of every layer of a model."""
    listed = []
    for number, name, layer in model_edge_layers(model):
        edges = edges_of(layer)
        assert edges is not None
        gone = int(removed[layer].sum()) if layer in removed else 0
        listed.append(Removal(layer=number, name=name, edges=edges.num_edges, removed=gone))
    return listed


def save_pruned(
    model: PreTrainedModel, folder: Path, removed: Sequence[Removal], how: str, tokenizer: object = None
) -> None:
    """Save a model whose edges were removed, with ``removed.json``; ``from_pretrained`` loads it.

    Args:
        model: After ``remove``.
        folder: Replaced as a whole.
        removed: What ``removals`` listed.
        how: By what the edges were chosen, in words.
        tokenizer: Saved beside it.
    """
    aside = folder.with_name(f"{folder.name}.tmp-{os.getpid()}")
    try:
        _fill(aside, model, removed, how, tokenizer)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(aside, folder)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)  # a full disk needs the space
        raise


def _fill(
    folder: Path, model: PreTrainedModel, removed: Sequence[Removal], how: str, tokenizer: object
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with quiet_transformers():
        model.save_pretrained(folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)  # type: ignore[missing-attribute]
    gone, all_edges = sum(x.removed for x in removed), sum(x.edges for x in removed)
    content = {
        "removed": gone,
        "edges": all_edges,
        "chosen_by": how,
        "layers": [asdict(x) for x in removed],
    }
    write_text(folder / REMOVAL_FILE, json.dumps(content, indent=1) + "\n")
    write_text(
        folder / "README.md",
        f"# A pruned model\n\n{gone:,} of the {all_edges:,} edges of its feed-forward networks were set to "
        f"zero, {how}; `{REMOVAL_FILE}` has the count of every layer. Nothing was trained afterwards.\n",
    )
