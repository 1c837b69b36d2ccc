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
    "smyth2004": r"""@article{smyth2004,
  author = {Smyth, Gordon K.},
  title = {Linear Models and Empirical {Bayes} Methods for Assessing Differential Expression in Microarray
           Experiments},
  journal = {Statistical Applications in Genetics and Molecular Biology}, volume = {3}, number = {1},
  year = {2004}
}""",
    "lan1983": r"""@article{lan1983,
  author = {Lan, K. K. Gordon and DeMets, David L.},
  title = {Discrete Sequential Boundaries for Clinical Trials},
  journal = {Biometrika}, volume = {70}, number = {3}, pages = {659--663}, year = {1983}
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
    "berger1982": r"""@article{berger1982,
  author = {Berger, Roger L.},
  title = {Multiparameter hypothesis testing and acceptance sampling},
  journal = {Technometrics},
  volume = {24},
  number = {4},
  pages = {295--300},
  year = {1982},
  doi = {10.2307/1267823}
}""",
    "black2021": r"""@misc{black2021,
  author = {Black, Sid and Gao, Leo and Wang, Phil and Leahy, Connor and Biderman, Stella},
  title = {{GPT-Neo}: Large Scale Autoregressive Language Modeling with {Mesh-Tensorflow}},
  howpublished = {Zenodo},
  year = {2021},
  doi = {10.5281/zenodo.5297715}
}""",
    "liu2019": r"""@misc{liu2019,
  author = {Liu, Yinhan and Ott, Myle and Goyal, Naman and Du, Jingfei and Joshi, Mandar and Chen, Danqi
           and Levy, Omer and Lewis, Mike and Zettlemoyer, Luke and Stoyanov, Veselin},
  title = {{RoBERTa}: A Robustly Optimized {BERT} Pretraining Approach},
  howpublished = {arXiv:1907.11692},
  year = {2019}
}""",
    "raffel2020": r"""@article{raffel2020,
  author = {Raffel, Colin and Shazeer, Noam and Roberts, Adam and Lee, Katherine and Narang, Sharan and
           Matena, Michael and Zhou, Yanqi and Li, Wei and Liu, Peter J.},
  title = {Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer},
  journal = {Journal of Machine Learning Research},
  volume = {21},
  number = {140},
  pages = {1--67},
  year = {2020}
}""",
    "touvron2023": r"""@misc{touvron2023,
  author = {Touvron, Hugo and Lavril, Thibaut and Izacard, Gautier and Martinet, Xavier and
           Lachaux, Marie-Anne and Lacroix, Timoth{\'e}e and Rozi{\`e}re, Baptiste and Goyal, Naman and
           Hambro, Eric and Azhar, Faisal and Rodriguez, Aurelien and Joulin, Armand and Grave, Edouard and
           Lample, Guillaume},
  title = {{LLaMA}: Open and Efficient Foundation Language Models},
  howpublished = {arXiv:2302.13971},
  year = {2023}
}""",
    "wang2019": r"""@inproceedings{wang2019,
  author = {Wang, Alex and Pruksachatkun, Yada and Nangia, Nikita and Singh, Amanpreet and Michael, Julian
           and Hill, Felix and Levy, Omer and Bowman, Samuel R.},
  title = {{SuperGLUE}: A Stickier Benchmark for General-Purpose Language Understanding Systems},
  booktitle = {Advances in Neural Information Processing Systems 32},
  year = {2019}
}""",
    "warstadt2023": r"""@inproceedings{warstadt2023,
  author = {Warstadt, Alex and Mueller, Aaron and Choshen, Leshem and Wilcox, Ethan and Zhuang, Chengxu
           and Ciro, Juan and Mosquera, Rafael and Paranjabe, Bhargavi and Williams, Adina and Linzen,
           Tal and Cotterell, Ryan},
  title = {Findings of the {BabyLM} Challenge: Sample-Efficient Pretraining on Developmentally Plausible
           Corpora},
  booktitle = {Proceedings of the BabyLM Challenge at the 27th Conference on Computational Natural
           Language Learning},
  pages = {1--34},
  year = {2023},
  doi = {10.18653/v1/2023.conll-babylm.1}
}""",
    "ivanova2024": r"""@misc{ivanova2024,
  author = {Ivanova, Anna A. and Sathe, Aalok and Lipkin, Benjamin and others},
  title = {Elements of World Knowledge ({EWoK}): A cognition-inspired framework for evaluating basic world
           knowledge in language models},
  howpublished = {arXiv:2405.09605},
  year = {2024}
}""",
    "misra2023": r"""@inproceedings{misra2023,
  author = {Misra, Kanishka and Rayz, Julia and Ettinger, Allyson},
  title = {{COMPS}: Conceptual Minimal Pair Sentences for testing Robust Property Knowledge and its
           Inheritance in Pre-trained Language Models},
  booktitle = {Proceedings of the 17th Conference of the European Chapter of the Association for
           Computational Linguistics},
  pages = {2928--2949},
  year = {2023},
  doi = {10.18653/v1/2023.eacl-main.213}
}""",
    "kim2023": r"""@inproceedings{kim2023,
  author = {Kim, Najoung and Schuster, Sebastian},
  title = {Entity Tracking in Language Models},
  booktitle = {Proceedings of the 61st Annual Meeting of the Association for Computational Linguistics
           (Volume 1: Long Papers)},
  pages = {3835--3855},
  year = {2023},
  doi = {10.18653/v1/2023.acl-long.213}
}""",
    "salazar2020": r"""@inproceedings{salazar2020,
  author = {Salazar, Julian and Liang, Davis and Nguyen, Toan Q. and Kirchhoff, Katrin},
  title = {Masked Language Model Scoring},
  booktitle = {Proceedings of the 58th Annual Meeting of the Association for Computational Linguistics},
  pages = {2699--2712},
  year = {2020},
  doi = {10.18653/v1/2020.acl-main.240}
}""",
}
"""By the key that a text cites."""
OF_FAMILY = {"gpt_neo": "black2021", "roberta": "liu2019", "t5": "raffel2020", "llama": "touvron2023"}
OF_SUITE = {
    "blimp": ("warstadt2020",),
    "blimp-fast": ("warstadt2020",),
    "blimp-filtered": ("warstadt2020",),
    "blimp-supplement": ("warstadt2023",),
    "babylm23": ("warstadt2020", "warstadt2023"),
    "glue": ("wang2018",),
    "ewok": ("ivanova2024",),
    "comps": ("misra2023",),
    "entity-tracking": ("kim2023",),
}
SUPERGLUE_TASKS = frozenset({"boolq", "multirc", "wsc"})
"""Tasks of the suite ``glue`` that are not of GLUE."""


def bibliography(keys: Iterable[str]) -> str:
    """Return the entries of these keys, each once, in the order of ``ENTRIES``."""
    wanted = set(keys)
    return "\n\n".join(entry for key, entry in ENTRIES.items() if key in wanted) + "\n"
