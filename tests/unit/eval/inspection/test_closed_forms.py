"""Closed forms: planted ones are recognised, and R^2 is that of least squares."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from eval.inspection.closed_forms import FORMS, GOOD, NO_FORM, fit_forms, own_points
from eval.inspection.edge_statistics import edge_statistics
from ffn_variants.inside.edges import Edges, edges_of
from ffn_variants.variants.fourier_kan import FourierKANLinear

NAMES = [form.name for form in FORMS]
PLANTED = {
    "line": lambda z: 3 * z - 1,
    "parabola": lambda z: (z - 0.7) ** 2,
    "cubic": lambda z: z**3 - 2 * z,
    "exponential": lambda z: torch.exp(1.3 * z),
    "sine": lambda z: torch.sin(3 * z + 0.4),
    "tanh": lambda z: torch.tanh(3.2 * (z + 0.5)),
    "bump": lambda z: torch.exp(-((1.7 * (z - 0.25)) ** 2)),
    "hinge": lambda z: torch.relu(z - 0.3) - 0.2 * z,
}


def of_functions(functions) -> Edges:
    """A layer whose edges from each of two inputs are these functions, one an output."""

    def basis(z: torch.Tensor) -> torch.Tensor:
        return torch.stack([function(z) for function in functions], 1)

    weight = torch.eye(len(functions)).unsqueeze(2).expand(-1, -1, 2).contiguous()
    return Edges(
        kind="planted", weight=weight, bias=None, features=basis, coordinates=lambda x: x, basis=basis
    )


@pytest.fixture(scope="module")
def inputs() -> torch.Tensor:
    return torch.randn(3000, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 0.9])


def test_planted_forms_are_recognised(inputs):
    found = fit_forms(of_functions(list(PLANTED.values())), inputs)
    for place, name in enumerate(PLANTED):
        assert [NAMES[k] for k in found.names[place]] == [name, name], name
        assert (found.r2[place, :, NAMES.index(name)] > GOOD).all()


def test_noise_has_no_name_and_a_constant_is_left_out(inputs):
    wild = lambda z: torch.sin(9 * z) + torch.sin(5.3 * z + 1) + torch.relu(z)  # noqa: E731
    found = fit_forms(of_functions([wild, lambda z: 0 * z + 4]), inputs)
    assert (found.names[0] == len(FORMS)).all()
    assert (found.names[1] == -1).all()
    shares = found.shares(torch.ones(2, 2))
    assert shares[NO_FORM] == 1
    assert sum(shares.values()) == pytest.approx(1)
    assert found.best[1].eq(0).all()


def test_r2_is_that_of_least_squares(inputs):
    torch.manual_seed(0)
    edges = edges_of(FourierKANLinear(2, 3, 4))
    found = fit_forms(edges, inputs).r2.numpy()
    points = own_points(inputs)
    curves = torch.einsum("qki,oki->oiq", edges.basis(points.float()).double(), edges.weight.double()).numpy()
    for i in range(2):
        z = ((points[:, i] - points[:, i].mean()) / points[:, i].std()).numpy()
        for name, columns in (("parabola", [z, z**2]), ("cubic", [z, z**2, z**3])):
            design = np.column_stack([np.ones_like(z), *columns])
            for o in range(3):
                y = curves[o, i]
                rest = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
                assert found[o, i, NAMES.index(name)] == pytest.approx(1 - rest.var() / y.var(), abs=1e-6)


def test_a_model_of_planted_edges_is_named_by_its_variance(inputs):
    """Two of three edges' variance is a sine's, and one edge is dead."""
    functions = [lambda z: torch.sin(2 * z), lambda z: z**2, lambda z: 0 * z]
    edges = of_functions(functions)
    statistics = edge_statistics(edges, inputs)
    shares = fit_forms(edges, inputs).shares(statistics.activity)
    variance = [float(f(inputs.double()).var(0, correction=0).sum()) for f in functions]
    assert shares["sine"] == pytest.approx(variance[0] / sum(variance), rel=1e-4)
    assert shares["parabola"] == pytest.approx(variance[1] / sum(variance), rel=1e-4)
    assert statistics.dead == pytest.approx(1 / 3)
