"""What the stock classes pass of transformers' own tests, this project's classes pass with every kind of FFN.

``make transformers-tests`` runs them; those of generation and export are not in the source distribution.
"""

import importlib
import re
import subprocess
import sys
import tarfile
import unittest
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any

import pytest
import torch
import transformers

from ffn_variants import FAMILIES, build_config
from tests.cases import KINDS
from tests.stock_models import stock_class, stock_config

PACKAGE = "transformers_own_tests"
ELSEWHERE = {"exporters.test_export": "ExportTesterMixin", "generation.test_utils": "GenerationTesterMixin"}
"""What the tests of models import and the source distribution does not have."""


def download(folder: Path) -> Path:
    """Get the tests of the installed version out of its source distribution; skip where it cannot be had."""
    wanted = f"transformers=={transformers.__version__}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "transformers", wanted]
    done = subprocess.run([*command, "--dest", str(folder)], capture_output=True, text=True, timeout=600)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        pytest.skip(f"the source distribution of {wanted} cannot be had: {reason}")
    (archive,) = folder.glob("transformers-*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz") / "tests"


def load(folder: Path, config: pytest.Config) -> Any:
    """Import the module that has ``ModelTesterMixin``, once pytest knows the marks that it uses."""
    file = folder / "test_modeling_common.py"
    if not file.is_file():
        pytest.skip(
            f"transformers {transformers.__version__} has no tests of models in its source distribution"
        )
    for mark in re.findall(r"\bmark\.(\w+)", file.read_text(encoding="utf-8")):
        config.addinivalue_line("markers", mark)
    _module(PACKAGE).__path__ = [str(folder)]
    for name, mixin in ELSEWHERE.items():
        if not (folder / f"{name.replace('.', '/')}.py").is_file():
            _module(f"{PACKAGE}.{name.partition('.')[0]}").__path__ = []
            setattr(_module(f"{PACKAGE}.{name}"), mixin, type(mixin, (), {}))
    common: Any = importlib.import_module(f"{PACKAGE}.test_modeling_common")
    names = common.get_values
    # The tests tell by a class's name what labels it takes; the project's names are FFN and the stock one.
    common.get_values = lambda mapping: [*names(mapping), *(f"FFN{name}" for name in names(mapping))]
    return common


def _module(name: str) -> ModuleType:
    sys.modules[name] = ModuleType(name)
    return sys.modules[name]


def outcome(case: type[unittest.TestCase], name: str) -> str:
    """Run one test; returns ``passed``, or what it says: of a failure, or why it is skipped."""
    result = unittest.TestResult()
    case(name).run(result)
    for _, text in [*result.errors, *result.failures]:
        return f"failed: {text.strip().splitlines()[-1]}"
    return f"skipped: {result.skipped[0][1]}" if result.skipped else "passed"


SIZES = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 37,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 64,
}
OF_FAMILY: dict[str, dict] = {"gpt_neo": {"window_size": 7}, "roberta": {"max_position_embeddings": 65}}


class Tester:
    """Makes configs and inputs, by the names that the tests have for them."""

    __test__ = False
    batch_size, is_training = 3, True
    seq_length = encoder_seq_length = decoder_seq_length = 7
    hidden_size, num_hidden_layers, num_attention_heads = 32, 2, 4

    def __init__(self, family: str, variant: str | None):
        self.family, self.variant = family, variant

    def get_config(self) -> Any:
        """A config of this project, or the stock one with the same values where there is no variant."""
        sizes: dict[str, Any] = SIZES | OF_FAMILY.get(self.family, {})
        config = build_config(self.family, self.variant or FAMILIES[self.family].stock_ffn, **sizes)
        return config if self.variant else stock_config(config)

    def prepare_config_and_inputs_for_common(self) -> tuple[Any, dict[str, torch.Tensor]]:
        ids = torch.randint(3, SIZES["vocab_size"], (self.batch_size, self.seq_length))
        ids[:, -1] = 2  # of T5, the stock class classifies by the last of these
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if self.family == "t5":
            inputs |= {"decoder_input_ids": ids.clone(), "decoder_attention_mask": torch.ones_like(ids)}
        return self.get_config(), inputs


def make_case(common: Any, family: str, is_classifier: bool, variant: str | None) -> type[unittest.TestCase]:
    """The tests of a family's backbone and language model, or of its classifier alone.

    Args:
        common: The module with the tests.
        family: A name in ``FAMILIES``.
        is_classifier: Which of them: a test stops at the first class that it fails on.
        variant: A name in ``FFN_VARIANTS``; None for the stock classes.
    """
    spec = FAMILIES[family]
    places = [spec.classifier_class] if is_classifier else [spec.backbone_class, spec.model_class]
    classes = [resolve_name(place) for place in places]
    writes = any(each.can_generate() for each in classes)

    mixins = [common.ModelTesterMixin, *([common.GenerationTesterMixin] if writes else [])]

    class Case(*mixins, unittest.TestCase):  # type: ignore[invalid-inheritance]
        all_model_classes = tuple(classes if variant else map(stock_class, classes))
        is_encoder_decoder = family == "t5"

        def setUp(self) -> None:
            self.model_tester = Tester(family, variant)

    return Case


VARIANTS = ("fourier-kan", *(name for name in KINDS if name != "swish"))
OTHERWISE = {
    # An FFN without T5's layer wo has none to keep in float32.
    "test_keep_in_fp32_modules": "skipped: FFN",
    "test_keep_in_fp32_modules_exist": "skipped: FFN",
    # A checkpoint without the FFN's weights is refused.
    "test_model_weights_reload_no_missing_tied_weights": "does not hold the weights of ffn",
}
"""Words of outcomes that are right and not those of the stock classes, by the test."""
FP16 = re.compile(r"test_eager_matches_sdpa_inference_\d\d_fp16")


def words(name: str, variant: str) -> str:
    """Words that the outcome of a test has to have."""
    if variant == "product-key-memory" and FP16.match(name):
        # Rounding decides between keys that are nearly as near: some tokens read other values of the memory.
        return "mean relative difference"
    return OTHERWISE.get(name, "passed")


@pytest.fixture(scope="session")
def common(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config):
    return load(download(tmp_path_factory.mktemp("transformers")), pytestconfig)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("is_classifier", [False, True], ids=["models", "classifier"])
def test_what_the_stock_classes_pass_passes_here(common, is_classifier, family: str, variant: str) -> None:
    ours, stock = (make_case(common, family, is_classifier, each) for each in (variant, None))
    names = [name for name in dir(ours) if name.startswith("test_") and callable(getattr(ours, name))]
    found = {name: outcome(ours, name) for name in names}
    assert list(found.values()).count("passed") > 60
    others = {
        name: text for name, text in found.items() if text != "passed" and words(name, variant) not in text
    }
    assert {name: text for name, text in others.items() if outcome(stock, name) == "passed"} == {}
