"""Fingerprints of earlier source that computed the same to the bit, by variant of this project.

Finished runs of them are not refused. How a line is added: CONTRIBUTING.md, "Rewriting what a variant is made
of". A variant of one's own has them in its spec.
"""

# ruff: noqa: E501 (a row for each variant)

EARLIER_SOURCES = {
    "gelu": "fb172d23fe56",
    "learnable-gelu": "5039c5e30f48 618658b85172",
    "relu": "86d4457150a6",
    "relu2": "c92d6c1654b3",
    "leaky-relu2": "3cba02461a1f",
    "prelu": "585f9ad841c6",
    "silu": "8e5068974609",
    "swish": "47e90a66a772 39a86f4b2ce6",
    "snake": "3d075db404c6 ccce8204db16 05fa114fc7e2 e8cc78317d75 6059c864b0aa",
    "none": "efb724e8d999",
    "thesis-swish": "0d4e3e3190e0 528267924ecf",
    "xielu": "c9fb46ba9150 fcfb03159df1 0aba78d61fba 3deadc4ef7a5 375373502e32 e761dbcc73b4",
    "polyrelu": "37d8d4a7ab5b 295e46383664 b60d8a4706c2 0d237c227227 829bdddcd182 4ef44c1754d8",
    "polynorm": "274ecba44b14 b90751e7d4b6 1d24a80a1e2f 5da28e7a3870 0a4a0864e8c7 9e759e1d900e",
    "rational": "278e6aac0405 5a060d331b2e adfb1602c499 46069cfea006 0e045a4416c0",
    "gaussian-topk": "ea876dc63d25 9b9595ccafb4 362b80a81ffe 196d84faf13e 720d64936b91 e33c59412ac5",
    "no-ffn": "5d762e46cea1",
    "glu": "a90d51bd8c8f",
    "bilinear": "8a58abf44bc4",
    "reglu": "d631c111468c",
    "relu2-glu": "af704ab74232",
    "geglu": "6433a75318e9",
    "swiglu": "e5e97c6fa580",
    "clamped-swiglu": "b55c473e2b7f 4451ae81b638 5ed722bdf6c9 4607caa2c430 86230e0d4475",
    "kan": "596177ab86ff ff83987fc922 45a2897a4056 358844d9d677 75ba612311e3 fff65116f7c2 1cfe24b75226 df8728552e18 2fa4099128be ee11e3766a3d",
    "thesis-kan": "7a95d0221159 050b62d93b85 88e065ff8ac9 fe9881d855b6 4104431ae8df 7590766d788a dfccca14786b a8f7d536fcba 9753ef062dd4 70d4ad4c17ca",
    "fourier-kan": "8553da5e7ec0 aefe4dbcfeea ff82f69df7fa 56c8ef546d11 b0db1694e08c 2acdfe5ab857 4fe2ff4e6eac 436e774a7688 29bcbb0f6fe1 25975c753373",
    "cheby-kan": "1d0f0dc07509 97f333400251 6fb35ed716b9 bd3d424da3e9 e4fddc66752c 754f24a62ea5",
    "jacobi-kan": "196f0339024d 931c4c670899 8319621145e7 a4719a1cba4e 458ed1777ee0 0eefd0660521",
    "hermite-kan": "cbb288d75cbd c582fa178616 0fc93361ea22 03f1f1198f49 fe94a5a9da9c ae18195da2ac",
    "rbf-kan": "3af8694d6a48 c092f1652f93 84352026e98e d1134df78dfc 51f50ab545ca 7676ed64840b 573650461925 195c652e31ef 3974c6ca4f9c 88317ed22955",
    "relu-kan": "2893aee522aa 8f1cc7c83ab7 3877ccbb1d90 a500cab65259 0c45d573eeb9 abab8eb75ffd",
    "sine-kan": "aa694bb55f3c f351781ff1bf 6646673812f5 4054a305f8a8 785d9a8d9f8a 27bccb1e7a2a 6393eb109f21",
    "wav-kan": "ee9392b9e190 ba66091c9a37 9093af20d669 f347f97fe8b0 a54dff645824",
    "mlp-edge": "f905fe77ff91 78612141550e c712623aa41a 96473d6320d2 c9e60684f7cf",
    "spline-kan": "02a43a71da6d 0ee2139325d5 9c9ae24ba9ae 184fc08fc7e6 ad2167640527 01702e7ed5e8 90dc04705030 7aebba656fbd 54b5db4ecc19",
    "spline-activation": "a87314a58a26 2da0aa154b1d 3aedf58056b4 b1f7f6937c60 8dd641b7294f b2daf9294f2c 417183aa4731 10204a375e94 0bae38d808a3",
    "gr-kan": "5ece01ba712b f6b626f17ee6 764d1f97daa8 4eb5181856af 7b01467ee8d5 63cfd92dc0df 665c92e1554a",
    "moe": "80e50e2067e5 a00490777e58 fba04f92a980 a202bda5bfc0 3e082ef5ca79",
    "product-key-memory": "20e68fd79e46 9507b50b896a b3bf84bd7d29 73aa35444bfe 8b0b23385bdf",
}
"""Oldest first."""
