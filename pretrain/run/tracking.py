"""What a run is called in a tracker, and how it stays one run there when it is resumed, or scored later."""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from base.errors import UsageError, first_line
from base.files import write_text
from base.json_text import parse_json
from pretrain.config import RunConfig
from pretrain.run.folders import RunFolder

SCORES = "score/"
"""Before the names of scores that were made when the training had ended."""


@dataclass(frozen=True, kw_only=True)
class Tracked:
    """How a tracker knows a run.

    Attributes:
        project: The study.
        name: Family, variant and run folder: ``gpt_neo/kan/seed1-0a1b2c3d``.
        group: Family and variant, so that seeds stand together.
        tags: Family, variant and seed, to filter by.
        id: Of this training. It is drawn when the training first starts and kept in the run's folder, so
            that a resumed run goes on, and one that was removed and is trained anew is another.
        folder: Where the tracker's files lie.
    """

    project: str
    name: str
    group: str
    tags: tuple[str, ...]
    id: str
    folder: Path

    def options(self, tracker: str, next_step: int) -> dict[str, Any]:
        """Return what a tracker is to be started with.

        Args:
            tracker: Its name.
            next_step: The first step that will be logged; what an interrupted session had logged beyond is
                dropped where the tracker can do so.
        """
        if tracker == "tensorboard":
            return {"purge_step": next_step}
        if tracker == "trackio":
            return {"name": f"{self.name}-{self.id}", "group": self.group, "resume": "allow", "embed": False}
        return {
            "name": self.name,
            "group": self.group,
            "tags": list(self.tags),
            "id": self.id,
            "resume": "allow",
            "dir": str(self.folder),
        }


def tracked(config: RunConfig, path: Path) -> Tracked:
    """Say how a tracker knows a run; the first time, its id is drawn and kept."""
    run = RunFolder(path)
    group = f"{config.family}/{config.model.ffn}"
    return Tracked(
        project=config.output.study,
        name=f"{group}/{run.path.name}",
        group=group,
        tags=(config.family, config.model.ffn, f"seed{config.seed}"),
        id=_id_of(run),
        folder=run.logs_dir,
    )


def _id_of(run: RunFolder) -> str:
    """Read the id of a run's training, or draw it; a damaged file is drawn anew."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        if found := str(parse_json(run.tracker_file.read_bytes())["id"]):
            return found
    drawn = secrets.token_hex(6)
    write_text(run.tracker_file, json.dumps({"id": drawn}) + "\n")
    return drawn


@contextlib.contextmanager
def quiet(tracker: str) -> Iterator[None]:
    """Keep what a tracker prints at its start and end out of this project's lines."""
    if tracker == "wandb":
        os.environ.setdefault("WANDB_SILENT", "true")
        # Offline it would write every 15 s, and a kill would lose what it had not written.
        os.environ.setdefault("WANDB_X_TRANSACTION_LOG_FLUSH_INTERVAL", "1")
    logger = logging.getLogger("trackio")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def log_scores(path: Path, config: RunConfig, scores: Mapping[str, float], step: int) -> str | None:
    """Add scores to the run of a tracker that its training was logged to.

    Args:
        path: The run's folder.
        config: Its configuration.
        scores: By name, as ``score/blimp``.
        step: The last one of its training.

    Returns:
        What went wrong, in one line; None if nothing did, or the training was not tracked. Scores are kept
        in the run's folder either way.
    """
    tracker = config.train.tracker
    if tracker == "none" or not scores or not RunFolder(path).tracker_file.is_file():
        return None
    known = tracked(config, path)
    try:
        with quiet(tracker):
            _send(tracker, known, scores, step)
    except Exception as error:  # each tracker raises its own, and no score may be lost for it
        return f"{known.name}: scores are not in {tracker} ({first_line(error)}); they are in {path}/eval"
    return None


def _send(tracker: str, known: Tracked, scores: Mapping[str, float], step: int) -> None:
    options = known.options(tracker, step + 1)
    if tracker == "tensorboard":
        from torch.utils.tensorboard import SummaryWriter

        with SummaryWriter(str(known.folder / known.project)) as writer:
            for name, score in scores.items():
                writer.add_scalar(name, score, global_step=step)
        return
    if tracker == "wandb":
        wandb: Any = importlib.import_module("wandb")
        with wandb.init(project=known.project, **options) as run:
            run.summary.update(dict(scores))
        return
    trackio: Any = importlib.import_module("trackio")
    run = trackio.init(project=known.project, **options)
    run.log(dict(scores), step=step)
    run.finish()


def start_error(tracker: str, error: Exception) -> UsageError:
    """Say in one line that a tracker does not start, and what to do."""
    offline = " or set WANDB_MODE=offline" if tracker == "wandb" else ""
    return UsageError(
        f"the tracker {tracker} does not start: {first_line(error)}; leave --tracker out{offline}, the run's "
        "metrics.jsonl has every number"
    )
