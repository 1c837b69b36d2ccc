"""The minimal pairs that the embedded grammar writes, for a laptop without network."""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path

from eval.config import EvalConfig
from eval.zero_shot.minimal_pairs import PairTask
from eval.zero_shot.task import TextTask
from pretrain.data.embedded import minimal_pairs


def find_tasks(suite: str, config: EvalConfig, run_dir: Path | None = None) -> list[TextTask]:
    """List a task for each paradigm of the grammar; the seed and the number of pairs are the config's."""
    size, seed = config.embedded_pairs_per_paradigm, config.embedded_seed
    source = f"embedded:{size}:{seed}"
    return [
        PairTask(suite, uid, source, partial(_read, size, seed, uid), config.max_pairs)
        for uid in _pairs(size, seed)
    ]


def _read(pairs_per_paradigm: int, seed: int, uid: str) -> list[dict]:
    return _pairs(pairs_per_paradigm, seed)[uid]


@lru_cache(maxsize=2)
def _pairs(pairs_per_paradigm: int, seed: int) -> dict[str, list[dict]]:
    return minimal_pairs(pairs_per_paradigm, seed)
