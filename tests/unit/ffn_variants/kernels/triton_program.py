"""Run the Triton kernels in Triton's interpreter, which is chosen for a whole process: so in one of its own.

Reads a list of cases from the first path and writes their results to the second.
"""

import os
import sys
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import torch

from ffn_variants import build_ffn
from ffn_variants.kernels import triton_ops
from ffn_variants.kernels.operations import name_of


def run(basis: Any, x: Any, grad: Any, constants: Any) -> Any:
    """Features in the dtype of grad, and the gradient of x."""
    features, slopes = triton_ops.triton_kernels(basis)  # type: ignore[not-iterable]
    out, grad_x = torch.full_like(grad, 7.0), torch.full_like(x, 7.0)
    features(x, out, *constants)
    slopes(x, grad, grad_x, *constants)
    return out, grad_x


def main() -> None:
    """Run all cases."""
    build_ffn("kan", 4, 4)(torch.randn(2, 4)).sum().backward()
    is_imported = "ffn_variants.kernels.triton_kernels" in sys.modules
    cases = torch.load(sys.argv[1], weights_only=False)
    results: dict[str, Any] = {"imported early": is_imported, "cases": [run(*case) for case in cases]}
    basis, x, grad, constants = cases[0]
    checks = ("test_schema", "test_faketensor")
    name = name_of(basis)
    for operation, arguments in (
        (triton_ops.basis_features, (x, grad.clone(), constants, name)),
        (triton_ops.basis_slopes, (x, grad, torch.empty_like(x), constants, name)),
    ):
        torch.library.opcheck(operation, arguments, test_utils=checks)
    torch.save(results, sys.argv[2])


if __name__ == "__main__":
    main()
