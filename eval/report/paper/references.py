"""BibTeX entries of what a report rests on; only those that are cited are written."""

from __future__ import annotations

from collections.abc import Iterable

ENTRIES = {
    "welch1947": r"""@article{welch1947,
  author = {Welch, B. L.},
  title = {The Generalization of `{Student's}' Problem when Several Different Population Variances are
           Involved},
  journal = {Biometrika}, volume = {34}, number = {1/2}, pages = {28--35}, year = {1947}
}""",
    "satterthwaite1946": r"""@article{satterthwaite1946,
  author = {Satterthwaite, F. E.},
  title = {An Approximate Distribution of Estimates of Variance Components},
  journal = {Biometrics Bulletin}, volume = {2}, number = {6}, pages = {110--114}, year = {1946}
}""",
    "holm1979": r"""@article{holm1979,
  author = {Holm, Sture},
  title = {A Simple Sequentially Rejective Multiple Test Procedure},
  journal = {Scandinavian Journal of Statistics}, volume = {6}, number = {2}, pages = {65--70}, year = {1979}
}""",
    "westfall1993": r"""@book{westfall1993,
  author = {Westfall, Peter H. and Young, S. Stanley},
  title = {Resampling-Based Multiple Testing: Examples and Methods for p-Value Adjustment},
  publisher = {Wiley}, year = {1993}
}""",
    "romano2005": r"""@article{romano2005,
  author = {Romano, Joseph P. and Wolf, Michael},
  title = {Exact and Approximate Stepdown Methods for Multiple Hypothesis Testing},
  journal = {Journal of the American Statistical Association}, volume = {100}, number = {469},
  pages = {94--108}, year = {2005}
}""",
    "schuirmann1987": r"""@article{schuirmann1987,
  author = {Schuirmann, Donald J.},
  title = {A Comparison of the Two One-Sided Tests Procedure and the Power Approach for Assessing the
           Equivalence of Average Bioavailability},
  journal = {Journal of Pharmacokinetics and Biopharmaceutics}, volume = {15}, number = {6},
  pages = {657--680}, year = {1987}
}""",
    "efron1993": r"""@book{efron1993,
  author = {Efron, Bradley and Tibshirani, Robert J.},
  title = {An Introduction to the Bootstrap},
  publisher = {Chapman \& Hall}, year = {1993}
}""",
    "lan1983": r"""@article{lan1983,
  author = {Lan, K. K. Gordon and DeMets, David L.},
  title = {Discrete Sequential Boundaries for Clinical Trials},
  journal = {Biometrika}, volume = {70}, number = {3}, pages = {659--663}, year = {1983}
}""",
    "lindon2022": r"""@article{lindon2022,
  author = {Lindon, Michael and Ham, Dae Woong and Tingley, Martin and Bojinov, Iavor},
  title = {Anytime-Valid Linear Models and Regression Adjusted Causal Inference in Randomized Experiments},
  journal = {arXiv preprint arXiv:2210.08589}, year = {2022}
}""",
    "eldan2023": r"""@article{eldan2023,
  author = {Eldan, Ronen and Li, Yuanzhi},
  title = {{TinyStories}: How Small Can Language Models Be and Still Speak Coherent {English}?},
  journal = {arXiv preprint arXiv:2305.07759}, year = {2023}
}""",
    "warstadt2020": r"""@article{warstadt2020,
  author = {Warstadt, Alex and Parrish, Alicia and Liu, Haokun and Mohananey, Anhad and Peng, Wei and
            Wang, Sheng-Fu and Bowman, Samuel R.},
  title = {{BLiMP}: The Benchmark of Linguistic Minimal Pairs for {English}},
  journal = {Transactions of the Association for Computational Linguistics}, volume = {8},
  pages = {377--392}, year = {2020}
}""",
    "wang2018": r"""@inproceedings{wang2018,
  author = {Wang, Alex and Singh, Amanpreet and Michael, Julian and Hill, Felix and Levy, Omer and
            Bowman, Samuel},
  title = {{GLUE}: A Multi-Task Benchmark and Analysis Platform for Natural Language Understanding},
  booktitle = {Proceedings of the 2018 EMNLP Workshop BlackboxNLP}, pages = {353--355}, year = {2018}
}""",
}
"""By the key that a text cites."""


def bibliography(keys: Iterable[str]) -> str:
    """Return the entries of these keys, each once, in the order of ``ENTRIES``."""
    wanted = set(keys)
    return "\n\n".join(entry for key, entry in ENTRIES.items() if key in wanted) + "\n"
