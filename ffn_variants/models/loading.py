"""Loading a saved model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from base.errors import UsageError, first_line
from base.families import AUTO_CLASSES
from base.model_folders import WEIGHTS_AS_DATA, refuse_code
from base.text.tokens import read_tokenizer
from ffn_variants.devices import choose_device
from ffn_variants.models import family_models  # noqa: F401  registers the variants' model types
from ffn_variants.models.stored_variants import admit_variants


def load_language_model(
    folder: Path, objective: str, device: str | None = None, trust_remote_code: bool = False
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a language model in fp32 and evaluation mode, and its tokenizer.

    Args:
        folder: What ``save_pretrained`` wrote.
        objective: ``causal``, ``masked`` or ``span_corruption``.
        device: Where to put it; None chooses.
        trust_remote_code: Whether to run an FFN variant that the folder brings, which is refused otherwise.

    Raises:
        UsageError: If there is no such model, or if some of its weights are not in the folder: they would be
            random numbers, and its scores with them.
    """
    model, info = load_pretrained(getattr(transformers, AUTO_CLASSES[objective]), folder, trust_remote_code)
    check_loaded(info, backbone=None, folder=folder)
    return model.to(choose_device(device)).eval(), read_tokenizer(folder)


def load_pretrained(
    auto: Any, folder: Path, trust_remote_code: bool = False, **config: object
) -> tuple[Any, dict]:
    """Load a model in fp32, whatever it was trained in: bf16 flips decisions of minimal pairs.

    Args:
        auto: An Auto class of transformers.
        folder: What ``save_pretrained`` wrote.
        trust_remote_code: Whether to run an FFN variant that the folder brings, which is refused otherwise.
        **config: Changes of the model's config, such as ``num_labels``.

    Returns:
        The model, and which of its weights were not in the folder.

    Raises:
        UsageError: If the folder holds no model that can be loaded, or brings code.
    """
    refuse_code(folder)
    admit_variants(folder, trust_remote_code)
    how = {"dtype": torch.float32, "output_loading_info": True, **WEIGHTS_AS_DATA}
    try:
        with quiet_transformers():
            return auto.from_pretrained(folder, **how, **config)
    except UsageError:
        raise
    except Exception as error:  # transformers and safetensors raise many kinds for a damaged folder
        raise UsageError(f"cannot load the model in {folder}: {first_line(error)}; train it again") from error


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Switch off transformers' bars and table of missing weights; ``check_loaded`` judges those."""
    level, bar_is_on = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar_is_on:
            logging.enable_progress_bar()


def check_loaded(info: dict, backbone: str | None, folder: Path) -> None:
    """Refuse a model of which more than its new head was left without weights.

    Args:
        info: What ``from_pretrained(..., output_loading_info=True)`` returned beside the model.
        backbone: The backbone's name. Keys that do not begin with it belong to the head and may be missing;
            None where nothing may.
        folder: Named in the error.

    Raises:
        UsageError: Names the first weights at fault.
    """
    missing = sorted(info["missing_keys"])
    if backbone is not None:
        missing = [key for key in missing if key.startswith(f"{backbone}.")]
    mismatched = sorted(str(key) for key in info["mismatched_keys"])
    if missing or mismatched:
        first_keys = ", ".join([*missing, *mismatched][:3])
        raise UsageError(
            f"{folder}: {len(missing)} weights are missing, {len(mismatched)} have another shape "
            f"({first_keys}); they would be random numbers, save the model again"
        )
