"""Fingerprints of earlier source that computed the same to the bit, by variant of this project.

Finished runs of them are not refused. How a line is added: CONTRIBUTING.md, "Rewriting what a variant is made
of". A variant of one's own has them in its spec.
"""

# ruff: noqa: E501 (a row for each variant)

EARLIER_SOURCES = {
    "learnable-gelu": "5039c5e30f48",
    "swish": "47e90a66a772",
    "snake": "3d075db404c6 ccce8204db16 05fa114fc7e2",
    "thesis-swish": "0d4e3e3190e0",
    "xielu": "c9fb46ba9150 fcfb03159df1 0aba78d61fba 3deadc4ef7a5",
    "polyrelu": "37d8d4a7ab5b 295e46383664 b60d8a4706c2 0d237c227227",
    "polynorm": "274ecba44b14 b90751e7d4b6 1d24a80a1e2f 5da28e7a3870",
    "rational": "278e6aac0405 5a060d331b2e",
    "gaussian-topk": "ea876dc63d25 9b9595ccafb4 362b80a81ffe 196d84faf13e",
    "clamped-swiglu": "b55c473e2b7f 4451ae81b638 5ed722bdf6c9",
    "kan": "596177ab86ff ff83987fc922 45a2897a4056 358844d9d677 75ba612311e3 fff65116f7c2 1cfe24b75226",
    "thesis-kan": "7a95d0221159 050b62d93b85 88e065ff8ac9 fe9881d855b6 4104431ae8df 7590766d788a dfccca14786b",
    "fourier-kan": "8553da5e7ec0 aefe4dbcfeea ff82f69df7fa 56c8ef546d11 b0db1694e08c 2acdfe5ab857 4fe2ff4e6eac",
    "cheby-kan": "1d0f0dc07509 97f333400251 6fb35ed716b9",
    "jacobi-kan": "196f0339024d 931c4c670899 8319621145e7",
    "hermite-kan": "cbb288d75cbd c582fa178616 0fc93361ea22",
    "rbf-kan": "3af8694d6a48 c092f1652f93 84352026e98e d1134df78dfc 51f50ab545ca 7676ed64840b 573650461925",
    "relu-kan": "2893aee522aa 8f1cc7c83ab7 3877ccbb1d90",
    "sine-kan": "aa694bb55f3c f351781ff1bf 6646673812f5 4054a305f8a8",
    "wav-kan": "ee9392b9e190 ba66091c9a37 9093af20d669",
    "mlp-edge": "f905fe77ff91 78612141550e c712623aa41a",
    "spline-kan": "02a43a71da6d 0ee2139325d5 9c9ae24ba9ae 184fc08fc7e6 ad2167640527 01702e7ed5e8 90dc04705030",
    "spline-activation": "a87314a58a26 2da0aa154b1d 3aedf58056b4 b1f7f6937c60 8dd641b7294f b2daf9294f2c 417183aa4731",
    "gr-kan": "5ece01ba712b f6b626f17ee6 764d1f97daa8 4eb5181856af",
    "moe": "80e50e2067e5 a00490777e58 fba04f92a980",
    "product-key-memory": "20e68fd79e46 9507b50b896a b3bf84bd7d29",
}
"""Oldest first."""
