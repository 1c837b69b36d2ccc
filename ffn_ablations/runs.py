"""Trained runs."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from base.config_input import read_yaml
from base.errors import UsageError, unknown_name
from base.families import get_family
from base.run.folder_names import RunFolder
from ffn_ablations.flags_as_keywords import one_line_errors, read_keywords, shown_briefly
from pretrain.generate import GenerateArgs, model_folder
from report.inputs.run_facts import Evaluation, RunFacts, held_out_rows, read_facts, read_tables
from report.inputs.study_checks import of_newest_sources
from report.significance.axes import plain
from slurm.cell_state import peek_listing


@dataclass(frozen=True)
class Run:
    """A run's folder.

    Args:
        folder: ``<runs_dir>/<study>/<family>/<variant>/<run>``.

    Raises:
        UsageError: If there is no run.
    """

    folder: Path
    facts: RunFacts = field(init=False, repr=False, compare=False)
    """What the folder told when this object was made: sizes, the losses, the course of training."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))
        if not self._inside.is_run:
            raise UsageError(
                f"{self.folder} is no run's folder (<runs_dir>/<study>/<family>/<variant>/<run>); "
                "ffn_ablations.train makes one, and study(...).runs lists those of a study"
            )
        run_id = self._inside.run_id
        facts = read_facts(self._inside, run_id)
        if levels := dict(peek_listing(self._inside.study.path).levels.get(run_id, {})):
            variant = levels.pop("variant", str(facts.variant))
            facts = replace(facts, variant=variant, places=tuple(levels.items()))
        object.__setattr__(self, "facts", facts)

    @property
    def _inside(self) -> RunFolder:
        return RunFolder(self.folder)

    @property
    def family(self) -> str:
        """The family, such as ``gpt_neo``."""
        return plain(self.facts.family)

    @property
    def variant(self) -> str:
        """The FFN variant, with its options where its study names several levels of it."""
        return str(self.facts.variant)

    @property
    def places(self) -> dict[str, str]:
        """Its level on each axis of its study, such as ``{"size": "0.1M"}``; empty without axes."""
        return dict(self.facts.places)

    @property
    def seed(self) -> int:
        """Of weights, data order, masking and dropout."""
        return self.facts.seed

    @property
    def parameters(self) -> int | None:
        """Numbers that were trained; of a tied matrix, once."""
        return self.facts.num_parameters

    @property
    def loss(self) -> float | None:
        """Held-out loss at the end of training, in nats per target token; None before it."""
        return self.facts.eval_loss

    @property
    def config(self) -> dict[str, Any]:
        """The resolved configuration, nested; ``train`` takes it."""
        return read_yaml(self._inside.config_file)

    @property
    def curve(self) -> pd.DataFrame:
        """The held-out loss in the course of training: step, loss (nats), tokens, hours."""
        return pd.DataFrame(self.facts.curve, columns=list(Evaluation._fields))

    @property
    def scores(self) -> pd.DataFrame:
        """Every score so far as rows, the held-out loss first, with a column for each axis of its study."""
        tables, notes = read_tables({self.facts.run_id: self._inside})
        if notes and not tables:
            raise UsageError(notes[0])
        rows = pd.concat([held_out_rows([self.facts]), *tables.values()], ignore_index=True)
        return rows.assign(run_id=self.facts.run_id, variant=self.variant, **self.places)

    @one_line_errors()
    def load(self, *, trust_remote_code: bool = False) -> tuple[Any, Any]:
        """Load the model, in fp32 and evaluation mode, and its tokenizer.

        Args:
            trust_remote_code: Run an FFN variant's file that lies with the model, which is code. One that
                this process has loaded needs no consent.

        Returns:
            A ``transformers.PreTrainedModel`` on the GPU if there is one, and its tokenizer.

        Raises:
            UsageError: If the run is not finished, or its folder is damaged.
        """
        loading = importlib.import_module("ffn_variants.models.loading")
        folder, objective = model_folder(self.folder), get_family(self.family).objective
        return loading.load_language_model(folder, objective, trust_remote_code=trust_remote_code)

    @one_line_errors()
    def generate(
        self, prompt: str = "Once upon a time", max_new_tokens: int = 100, **settings: Any
    ) -> list[str]:
        """Continue a prompt, as ``ffn-ablations generate`` does; for causal families.

        Args:
            prompt: How every text begins.
            max_new_tokens: Tokens to add at most.
            **settings: The command's other flags, with underscores: ``temperature``, ``top_p``, ``seed``,
                ``num``, ``trust_remote_code``.

        Raises:
            UsageError: If the run is not finished or of another family, or the prompt is too long.
        """
        lengths = {"prompt": [prompt], "max_new_tokens": max_new_tokens}
        options = read_keywords(GenerateArgs, {"run": self.folder, **lengths, **settings})
        sampling = importlib.import_module("pretrain.sampling")
        model, tokenizer = sampling.load_causal_model(model_folder(self.folder), options.trust_remote_code)
        draws = options.model_dump(include={"max_new_tokens", "temperature", "top_p", "seed", "num"})
        return sampling.continue_texts(model, tokenizer, options.prompt, **draws)

    @one_line_errors()
    def push_to_hub(self, repo: str, **settings: Any) -> None:
        """Push the model with its card and the code that loads it, as ``ffn-ablations push`` does.

        Args:
            repo: Where to, as ``owner/name``.
            **settings: The command's other flags: ``license``, ``public``, and ``dry_run``, a new folder to
                write everything into, instead of sending it.

        Raises:
            UsageError: If the run is not finished, or the hub refuses.
        """
        pushing = importlib.import_module("eval.push")
        pushing.push(read_keywords(pushing.PushArgs, {"path": self.folder, "repo": repo, **settings}))

    def plot(self, ax: Any = None) -> Any:
        """Draw its learning curve (see ``Runs.plot``)."""
        return Runs([self]).plot(ax)

    def evaluate(self, suites: Sequence[str] = (), **settings: Any) -> pd.DataFrame:
        """Score it: ``ffn_ablations.evaluate(self, suites, **settings)``."""
        scoring = importlib.import_module("ffn_ablations.train_and_evaluate")
        return scoring.evaluate(self, suites, **settings)

    def __add__(self, other: Run | Iterable[Run]) -> Runs:
        return Runs([self]) + other

    def __getattr__(self, name: str) -> Any:
        offered = ", ".join(each for each in dir(self) if not each.startswith("_"))
        instead = f"write .{_OF_A_RUN[name]}" if name in _OF_A_RUN else f"but {offered}"
        raise AttributeError(f"a run has no {name}; {instead}; load() gives model and tokenizer")

    def __repr__(self) -> str:
        loss = "not finished" if self.loss is None else f"held-out loss {self.loss:.4f}"
        return f"Run({os.fspath(self.folder)!r}, {loss})"

    def _repr_html_(self) -> str:
        return Runs([self])._repr_html_()


_COLUMNS = ("family", "variant", "seed", "loss", "parameters")
_LOSSES = 'but groupby("variant").loss has mean() and std(); min(runs, key=lambda run: run.loss) is the best'
_ELSEWHERE = {
    **dict.fromkeys(("best", "mean", "std"), _LOSSES),
    "to_frame": "but their data frame: runs.frame", "to_pandas": "but their data frame: runs.frame",
    **dict.fromkeys(("curve", "history", "losses"), "but their learning curves: runs.curves"),
    "save": "as they are saved already, in run.folder; Runs([folder, ...]) opens them again",
}  # fmt: skip
"""What other libraries have, whose data frame here has texts beside numbers: what to write."""
_OF_A_RUN = {
    "history": "curve", "log_history": "curve", "ffn": "variant", "model": "load()", "tokenizer": "load()",
    "path": "folder", "model_folder": 'folder / "model"', "metrics": "scores", "num_parameters": "parameters",
    "name": "variant", "losses": 'curve["loss"]', "eval_loss": "loss", "perplexity": "loss, nats: numpy.exp",
    "save": "folder, where it is saved; Run(folder) opens it again",
    "save_pretrained": 'load()[0].save_pretrained(path), or .folder / "model", a saved one',
}  # fmt: skip
"""What is looked for on a run, and is called otherwise."""


class Runs(list[Run]):
    """Several runs: a list that shows itself, and has what its ``frame`` has, such as ``runs.groupby``.

    ``runs[:2]`` are runs, ``runs["swish"]`` those of a variant, ``runs[["gelu", "swish"]]`` of two,
    ``runs[runs.loss < 3]`` those with such a loss, and ``runs["loss"]`` a column of the frame.
    """

    def __init__(self, runs: Iterable[Run | str | os.PathLike[str]] | str | os.PathLike[str] = ()) -> None:
        several = [runs] if isinstance(runs, str | os.PathLike) else runs
        super().__init__(Run(Path(run)) if isinstance(run, str | os.PathLike) else run for run in several)

    @property
    def frame(self) -> pd.DataFrame:
        """One row a run: family, variant, the study's axes, seed, loss (nats), parameters, folder."""
        axes = list(dict.fromkeys(axis for run in self for axis in run.places))
        rows = [
            {name: getattr(run, name) for name in _COLUMNS} | run.places | {"folder": str(run.folder)}
            for run in self
        ]
        return pd.DataFrame(rows, columns=[*_COLUMNS[:2], *axes, *_COLUMNS[2:], "folder"])

    def __getattr__(self, name: str) -> Any:
        if name[0] == "_" or name in {"frame", *_ELSEWHERE} or not hasattr(frame := self.frame, name):
            of_each = f"but each has: runs[0].{name}" if hasattr(Run, name) else ""
            instead = _ELSEWHERE.get(name) or of_each or "nor has their data frame, runs.frame"
            raise AttributeError(f"runs have no {name}, {instead}")
        return getattr(frame, name)

    @property
    def loss(self) -> pd.Series:
        """Held-out loss of each run by variant and seed, in nats per target token."""
        return self.frame.set_index(["variant", "seed"])["loss"]

    @property
    def scores(self) -> pd.DataFrame:
        """Every score so far of every run as rows."""
        return pd.concat([run.scores for run in self], ignore_index=True)

    @property
    def curves(self) -> pd.DataFrame:
        """The curve of each run, with its family, variant and seed."""
        who = ("family", "variant", "seed")
        return pd.concat([run.curve.assign(**{name: getattr(run, name) for name in who}) for run in self])

    @one_line_errors()
    def plot(self, ax: Any = None) -> Any:
        """Draw the learning curve of each run, and return the axes.

        Args:
            ax: Axes of matplotlib to draw into; None makes a figure of pyplot's.

        Raises:
            UsageError: Without runs.
        """
        if not self:
            raise UsageError("there are no runs to draw; ffn_ablations.train makes some")
        return importlib.import_module("ffn_ablations.drawing").draw_losses(self, ax)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, type):
            key = importlib.import_module("ffn_variants.spec").as_spec(key).name
        if isinstance(key, list | pd.Series | np.ndarray):
            if len(key) == len(self) and all(isinstance(each, bool | np.bool_) for each in key):
                return Runs(compress(self, key))
            if {*key} <= {*self.frame.columns}:
                return self.frame[list(key)]
            return Runs(run for each in key for run in as_runs(self[each]))
        if isinstance(key, tuple):
            if found := self.where(**dict(zip(("variant", "seed"), key, strict=False))):
                return found
            raise KeyError(f"there is no run of {key}; runs.frame lists them")
        if isinstance(key, str):
            if found := Runs(run for run in self if run.variant == key):
                return found
            if key in (frame := self.frame):
                return frame[key]
            raise KeyError(str(unknown_name("variant", key, dict.fromkeys(run.variant for run in self))))
        found = super().__getitem__(key)
        return Runs(found) if isinstance(key, slice) else found

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of their study, which all of them stand on."""
        first = self[0].places if self else {}
        return tuple(axis for axis in first if all(axis in run.places for run in self))

    @one_line_errors()
    def where(self, **levels: Any) -> Runs:
        """Keep the runs with these levels.

        Args:
            **levels: One or a list of them, of ``family``, ``variant``, ``seed`` or an axis:
                ``where(variant="kan grid_size=3", size=["0.1M", "1M"])``. A dotted axis is passed as
                ``**{"optim.learning_rate": "0.003"}``.

        Raises:
            UsageError: For a name that is none of these.
        """
        columns = ["family", "variant", "seed", *self.axes]
        if unknown := next((name for name in levels if name not in columns), None):
            raise unknown_name("axis of these runs:", unknown, columns)
        wanted = {name: np.ravel(level).astype(str).tolist() for name, level in levels.items()}
        return self[self.frame[list(levels)].astype(str).isin(wanted).all(axis=1)]

    def __add__(self, other: Run | Iterable[Run]) -> Runs:  # type: ignore[bad-override]
        return Runs([*self, *([other] if isinstance(other, Run) else other)])

    __iadd__ = __add__  # type: ignore[bad-override]

    def __repr__(self) -> str:
        if not self:
            return "no runs"
        return f"{len(self)} runs\n{self.frame.to_string(index=False, max_rows=20)}"

    def _repr_html_(self) -> str:
        return as_html(self.frame)


def as_html(frame: pd.DataFrame) -> str:
    """Return a table for a notebook, its texts whole and escaped."""
    with pd.option_context("display.max_colwidth", None):
        return frame.to_html(index=False, na_rep="not finished")


def as_runs(runs: object) -> Runs:
    """Return the runs that somebody names: one, several, folders, or a study, whose every run counts.

    Raises:
        UsageError: For anything else.
    """
    if isinstance(runs, Run):
        return Runs([runs])
    if isinstance(runs_of_study := getattr(runs, "runs", None), Runs):
        return runs_of_study
    if isinstance(runs, str | os.PathLike):
        return Runs(runs)
    if isinstance(runs, Sequence) and len(runs):
        return Runs([run for each in runs for run in as_runs(each)])
    raise UsageError(f"{shown_briefly(runs)} names no run: give what train(...) returned, or runs' folders")


def of_one_source(runs: Iterable[Run]) -> tuple[Runs, list[str]]:
    """Keep each run once, of an edited variant those of its newest source, and name the others."""
    each = {id(run.facts): run for run in dict.fromkeys(runs)}
    facts, notes = of_newest_sources([run.facts for run in each.values()])
    return Runs(each[id(one)] for one in facts), notes
