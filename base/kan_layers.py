"""KAN layers: the reference and the options that an FFN variant and a classification head of one share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from base.options import Option


@dataclass(frozen=True, kw_only=True)
class KANLayer:
    """What is said alike of a layer wherever it stands."""

    reference: str
    """Paper or repository."""
    options: Mapping[str, Option]


KAN = KANLayer(
    reference="Liu et al. 2024, arXiv:2404.19756; Blealtan/efficient-kan",
    options={
        "grid_size": Option(default=5, minimum=1, help="intervals of each spline's grid over [-1, 1]"),
        "spline_order": Option(default=3, minimum=1, maximum=5, help="degree of the spline's pieces"),
    },
)
HIDDEN_NORM = {
    "layer_norm": Option(
        default=1, minimum=0, maximum=1, help="1: a LayerNorm behind the hidden layer, as published; 0: none"
    )
}
"""Of FFNs of polynomials; a head has no hidden layer."""
CHEBY_KAN = KANLayer(
    reference="SynodicMonth/ChebyKAN 2024; Sidharth et al. 2024, arXiv:2405.07200",
    options={"degree": Option(default=4, minimum=1, help="highest degree of the polynomials")},
)
FOURIER_KAN = KANLayer(
    reference="GistNoesis/FourierKAN 2024",
    options={"grid_size": Option(default=5, minimum=1, help="number of frequencies k")},
)
RBF_KAN = KANLayer(
    reference="FastKAN, Li 2024, arXiv:2405.06721",
    options={
        "grid_size": Option(default=8, minimum=2, help="Gaussians of each edge, evenly spaced over [-2, 2]"),
        "init_scale": Option(default=0.1, help="standard deviation of their sum at the start"),
    },
)
GR_KAN = KANLayer(
    reference="Yang and Wang 2024, arXiv:2409.10594",
    options={
        "groups": Option(
            default=0, minimum=0, help="channel groups; 0: the largest number up to 8 that divides both sizes"
        )
    },
)
SPLINE_KAN = KANLayer(
    reference="KAT5 post 2024, havric.com/2024/06/07",
    options={"num_knots": Option(default=10, minimum=2, help="knots of each spline")},
)
JACOBI_KAN = KANLayer(
    reference="SpaceLearner/JacobiKAN 2024",
    options={
        "degree": Option(default=4, minimum=1, help="highest degree of the polynomials"),
        "alpha": Option(default=1.0, help="of the Jacobi polynomials, above -1; 0, as beta, for Legendre's"),
        "beta": Option(default=1.0, help="of the Jacobi polynomials, above -1"),
    },
)
HERMITE_KAN = KANLayer(
    reference="HermiteKAN, Boris-73-TA/OrthogPolyKANs 2024",
    options={"degree": Option(default=4, minimum=1, maximum=30, help="highest degree of the polynomials")},
)
SINE_KAN = KANLayer(
    reference="SineKAN, Reinhardt et al. 2024, arXiv:2407.04149; ereinha/SineKAN",
    options={"grid_size": Option(default=8, minimum=1, help="sines of each edge")},
)
RELU_KAN = KANLayer(
    reference="Qiu et al. 2024, arXiv:2406.02075, as in quiqi/relu_kan",
    options={
        "grid_size": Option(default=5, minimum=1, help="intervals of the grid over [-2, 2] at the start"),
        "spline_order": Option(default=3, minimum=1, help="by how much bumps are more than intervals"),
        "init_scale": Option(default=0.1, help="standard deviation of the output at the start"),
    },
)
WAV_KAN = KANLayer(
    reference="Bozorgasl and Chen 2024, arXiv:2405.12832; zavareh1/Wav-KAN",
    options={
        "wavelet": Option(
            default="mexican-hat",
            choices=("mexican-hat", "morlet", "dog"),
            help="dog: the derivative of a Gaussian",
        ),
        "init_scale": Option(default=0.1, help="standard deviation of the output at the start"),
    },
)
MLP_EDGE = KANLayer(
    reference="this project's own form of a network on every edge",
    options={
        "units": Option(default=4, minimum=1, help="hidden units of each edge's network"),
        "init_scale": Option(default=0.1, help="standard deviation of the output at the start"),
    },
)
