"""From a run folder to what is evaluated: who the run is, its model, its tokenizer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from base.errors import UsageError
from base.families import AUTO_CLASSES, get_family
from base.files import write_text
from eval.files import fingerprint
from eval.models.backbones import read_backbone
from pretrain.run.folders import RunFolder

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# Everything in a model folder that can change a score; the model card cannot.
_MODEL_SUFFIXES = (".safetensors", ".bin", ".json", ".txt", ".model")


@dataclass(frozen=True)
class RunIdentity:
    """What the rows of a run say about it.

    Attributes:
        run_id: ``<family>/<variant>/`` and ``seed<N>-<hash>``, or the name that its user chose.
        objective: ``causal``, ``masked`` or ``span_corruption``; None for a backbone, which scores no texts.
        finetune_seed: The one seed of fine-tuning that a backbone's folder is for; None for a run.
    """

    run_id: str
    family: str
    variant: str
    seed: int
    objective: str | None
    finetune_seed: int | None = None


def identify_run(run_dir: Path) -> RunIdentity:
    """Read who a run is from its config, wherever its folder was moved to.

    Raises:
        UsageError: If the folder is no run.
    """
    if (other := read_backbone(run_dir)) is not None:
        return RunIdentity(other.run_id, other.model_type, other.variant, other.seed, None, other.seed)
    from pretrain.run.run_dir import read_run, run_id

    config = read_run(run_dir)
    family, variant = config.family, config.model.ffn
    return RunIdentity(run_id(config), family, variant, config.seed, get_family(family).objective)


def model_folder(run_dir: Path) -> Path:
    """Return the folder of a run's trained model.

    Raises:
        UsageError: If there is none yet.
    """
    if (other := read_backbone(run_dir)) is not None:
        return Path(other.folder)
    folder = RunFolder(run_dir)
    if not folder.has_model:
        raise UsageError(
            f"{run_dir} has no model/config.json: its pretraining did not finish; start the same run again"
        )
    return folder.model_dir


def weights_hash(run_dir: Path) -> str:
    """Return 16 hexadecimal digits that change with a run's weights, model config or tokenizer."""
    return fingerprint(model_files(model_folder(run_dir)))


def remember_weights(run_dir: Path) -> None:
    """Note beside the scores which files have which hash, so that a check need not read them all again."""
    states = _file_states(run_dir)  # before they are read: a file that changes meanwhile is then not believed
    note = json.dumps({"weights": weights_hash(run_dir), "files": states})
    path = RunFolder(run_dir).known_weights_file
    if not path.is_file() or path.read_text(encoding="utf-8") != note:
        write_text(path, note)


def known_weights_hash(run_dir: Path) -> str:
    """Return ``weights_hash`` without reading files of which neither size nor time of change are others.

    Raises:
        UsageError: If there is no model.
    """
    try:
        known = json.loads(RunFolder(run_dir).known_weights_file.read_text(encoding="utf-8"))
        if known["files"] == _file_states(run_dir):
            return known["weights"]
    except (OSError, ValueError, KeyError, TypeError):
        pass  # evaluated before there was such a note
    return weights_hash(run_dir)


def model_files(folder: Path) -> list[Path]:
    """Return the files of a model's folder that its scores depend on."""
    return [path for path in sorted(folder.iterdir()) if path.suffix in _MODEL_SUFFIXES]


def _file_states(run_dir: Path) -> dict[str, list[int]]:
    states = ((path.name, path.stat()) for path in model_files(model_folder(run_dir)))
    return {name: [state.st_size, state.st_mtime_ns] for name, state in states}


def choose_device(name: str | None) -> str:
    """Return the device of that name, or where no name is given the GPU if there is one.

    Raises:
        UsageError: If this machine has no such device.
    """
    import torch

    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).split("\n")[0]
        raise UsageError(f"device {name!r} cannot be used here: {reason}; leave --device out") from error
    return name


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Load the tokenizer that was saved with a model.

    Raises:
        UsageError: If there is none.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise UsageError(f"no tokenizer in {folder}, save it there: {_first_line(error)}") from error
    if tokenizer is None:
        raise UsageError(f"no tokenizer in {folder}, save it there")
    return tokenizer


def load_language_model(
    folder: Path, objective: str, device: str | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a language model in fp32 and evaluation mode, and its tokenizer.

    Args:
        folder: What ``save_pretrained`` wrote.
        objective: ``causal``, ``masked`` or ``span_corruption``.
        device: Where to put it; None chooses.

    Raises:
        UsageError: If there is no such model, or if some of its weights are not in the folder: they would be
            random numbers, and its scores with them.
    """
    import transformers

    model, info = load_pretrained(getattr(transformers, AUTO_CLASSES[objective]), folder)
    check_loaded(info, backbone=None, folder=folder)
    return model.to(choose_device(device)).eval(), load_tokenizer(folder)


def load_pretrained(auto: Any, folder: Path, **config: object) -> tuple[Any, dict]:
    """Load a model in fp32, whatever it was trained in: bf16 flips decisions of minimal pairs.

    Args:
        auto: An Auto class of transformers.
        folder: What ``save_pretrained`` wrote.
        **config: Changes of the model's config, such as ``num_labels``.

    Returns:
        The model, and which of its weights were not in the folder.

    Raises:
        UsageError: If the folder holds no model that can be loaded.
    """
    import torch

    import ffn_variants  # noqa: F401  registers the variants' model types

    try:
        with _quiet_transformers():
            return auto.from_pretrained(folder, dtype=torch.float32, output_loading_info=True, **config)
    except Exception as error:  # transformers and safetensors raise many kinds for a damaged folder
        raise UsageError(f"cannot load the model in {folder}: {_first_line(error)}") from error


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Switch off transformers' loading bar and table of missing weights; ``check_loaded`` judges those."""
    from transformers.utils import logging

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
        named = ", ".join([*missing, *mismatched][:3])
        raise UsageError(
            f"{folder}: {len(missing)} weights are missing, {len(mismatched)} have another shape ({named}); "
            "they would be random numbers, save the model again"
        )


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0][:300]
