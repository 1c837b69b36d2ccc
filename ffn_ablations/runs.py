"""Trained runs."""

from __future__ import annotations

import importlib
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd
import yaml

from base.config_input import find_config, read_yaml
from base.errors import UsageError, closest, did_you_mean, unknown_name
from base.families import family_of, get_family
from base.files import write_text
from base.other_names import OtherNames
from base.records import read_json
from base.run.folder_names import RunFolder
from base.sections import leaf_fields
from ffn_ablations.flags_as_keywords import one_line_errors, read_keywords
from ffn_ablations.tables import Table, is_called
from ffn_ablations.wording import shown_briefly
from pretrain.config import RunConfig
from pretrain.generate import GenerateArgs, model_folder
from report.inputs.run_facts import Evaluation, RunFacts, held_out_rows, read_facts, read_tables
from report.inputs.study_checks import of_newest_sources
from report.significance.axes import plain
from scores.suites import SUITES
from slurm.cell_state import peek_listing


class Framed:
    """What shows a data frame, its ``frame``, and has whatever that has; a mapping by ``variant``, too."""

    other_names: ClassVar[Mapping[str, str]] = {}
    """What other libraries call one of its attributes."""

    def to_frame(self) -> pd.DataFrame:
        """Return ``frame``."""
        return self.frame

    to_pandas = to_dataframe = to_frame
    df = property(to_frame)

    def keys(self) -> list[str]:
        """Return the variants."""
        return list(dict.fromkeys(self.frame.reset_index()["variant"]))

    variants = names = property(keys)

    def items(self) -> list[tuple[str, Any]]:
        """Return each variant with what there is of it."""
        return [(name, self[name]) for name in self.keys()]  # type: ignore[bad-index]

    def __getattr__(self, name: str) -> Any:
        if name in self.other_names:
            return getattr(self, self.other_names[name])
        if name[0] != "_" and name != "frame" and hasattr(self.frame, name):
            return getattr(self.frame, name)
        offered = [each for each in dir(self) if each[0] != "_"]
        told = did_you_mean(closest(name, [*offered, *self.other_names]), f"it has {', '.join(offered)}")
        of_each = (
            f"but each run has, as runs[0].{name}" if isinstance(self, list) and hasattr(Run, name) else ""
        )
        raise AttributeError(f"{type(self).__name__} has no {name}, {of_each or told}")

    def _repr_html_(self) -> str:
        return as_html(self.frame)


class Config(dict[str, Any]):
    """A nested configuration: ``config.model.hidden_size``, or ``config["hidden_size"]`` by its last name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            found = self[name]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None
        if name in self and type(found) is dict:  # a section, of which a setting may be changed
            self[name] = found = Config(found)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __missing__(self, name: str) -> Any:
        sections = {key: each for key, each in self.items() if isinstance(each, dict)}
        settings = {f"{key}.{last}": each[last] for key, each in sections.items() for last in each}
        found = [path for path in settings if name in (path, path.partition(".")[2])]
        if len(found) == 1:
            return settings[found[0]]
        raise KeyError(str(unknown_name("setting", name, found or [*sections, *settings])))


yaml.SafeDumper.add_representer(Config, yaml.SafeDumper.represent_dict)


class Loaded(NamedTuple):
    """A ``transformers.PreTrainedModel`` and its tokenizer."""

    model: Any
    tokenizer: Any


class Trained(Framed):
    """What is done with one run as with several."""

    def evaluate(self, suites: str | Sequence[str] = (), **settings: Any) -> pd.DataFrame:
        """Score: ``ffn_ablations.evaluate(self, suites, **settings)``."""
        scoring = importlib.import_module("ffn_ablations.train_and_evaluate")
        return scoring.evaluate(self, suites, **settings)

    def compare(self, **settings: Any) -> Any:
        """Compare all scores so far: ``ffn_ablations.compare(self, **settings)``."""
        return importlib.import_module("ffn_ablations.comparing").compare(self, **settings)

    def summary(self) -> Table:
        """Describe the held-out losses of each variant: count, mean, std, min, ..., in nats."""
        runs = as_runs(self)
        levels = ["variant", *runs.told_apart]
        return Table(runs.frame.groupby(levels, sort=False, dropna=False)["loss"].describe())

    @one_line_errors()
    def save(self, folder: str | os.PathLike[str]) -> None:
        """Copy all but checkpoints into a folder, which ``ffn_ablations.load`` opens."""
        left_out = shutil.ignore_patterns("checkpoints", "logs", ".lock")
        for run in as_runs(self):
            copy = Path(folder, *run.folder.absolute().parts[-4:])
            shutil.copytree(run.folder, copy, ignore=left_out, dirs_exist_ok=True)
            write_name(copy, run.name)

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
        return importlib.import_module("ffn_ablations.drawing").draw_losses(as_runs(self), ax)


@dataclass(frozen=True, repr=False)
class Run(Trained):
    """A run's folder; where several runs may stand, it is one of one run.

    Args:
        folder: ``<runs_dir>/<study>/<family>/<variant>/<run>``.
        name: What its variant is called, as by ``train(ffn={name: ...})``; empty takes what it was called by
            the last training from Python, else the variant's own.

    Raises:
        UsageError: If there is no run.
    """

    folder: Path
    name: str = field(default="", compare=False)
    facts: RunFacts = field(init=False, repr=False, compare=False)
    """What the folder told when this object was made: sizes, the losses, the course of training."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))
        if not self._inside.is_run:
            longer = sorted(self.folder.parent.glob(f"{self.folder.name}-*"))
            near = f"there is {longer[0]}; " if longer else ""
            raise UsageError(
                f"{self.folder} is no run's folder (<runs_dir>/<study>/<family>/<variant>/<run>); {near}"
                "ffn_ablations.load opens all runs below a folder, and train makes some"
            )
        run_id = self._inside.run_id
        facts = read_facts(self._inside, run_id)
        if levels := dict(peek_listing(self._inside.study.path).levels.get(run_id, {})):
            variant = levels.pop("variant", str(facts.variant))
            facts = replace(facts, variant=variant, places=tuple(levels.items()))
        facts = replace(facts, variant=self.name or read_name(self.folder) or facts.variant)
        object.__setattr__(self, "name", str(facts.variant))
        object.__setattr__(self, "facts", facts)

    other_names: ClassVar = OtherNames("attribute of a run")

    def __call__(self, by: str = "loss") -> Run:
        """Return itself, so that ``runs.best()`` is ``runs.best``, which is by the held-out loss.

        Raises:
            UsageError: For another score.
        """
        if by not in ("loss", "held-out-loss", "held_out_loss"):
            raise UsageError(f"best is by the held-out loss; of {by!r} see evaluate(runs) or compare(runs)")
        return self

    @property
    def _inside(self) -> RunFolder:
        return RunFolder(self.folder)

    @property
    def family(self) -> str:
        """The family, such as ``gpt_neo``."""
        return plain(self.facts.family)

    @property
    def variant(self) -> str:
        """The FFN variant, with options where those differ."""
        return self.name

    @property
    def seed(self) -> int:
        """Of weights, data order, masking and dropout."""
        return self.facts.seed

    @property
    def places(self) -> dict[str, str]:
        """Its level on each axis of its study."""
        return dict(self.facts.places)

    @property
    def parameters(self) -> int | None:
        """Numbers that were trained; of a tied matrix, once."""
        return self.facts.num_parameters

    @property
    def loss(self) -> float | None:
        """Held-out loss at the end of training, in nats per target token; None before it."""
        return self.facts.eval_loss

    @property
    def perplexity(self) -> float | None:
        """Of the held-out text at the end of training; None before it."""
        return None if self.loss is None else math.exp(self.loss)

    @property
    def metrics(self) -> dict[str, float]:
        """The last step of ``curve``, and the perplexity."""
        last = self.facts.curve[-1:]
        return {**last[0]._asdict(), "perplexity": math.exp(last[0].loss)} if last else {}

    @property
    def losses(self) -> list[float]:
        """Held-out losses in its course, in nats."""
        return self.curve["loss"].tolist()

    @property
    def frame(self) -> pd.DataFrame:
        """One row, as of ``Runs``."""
        return Runs([self]).frame

    def to_dict(self) -> dict[Any, Any]:
        """Return that row as a dictionary."""
        return self.frame.to_dict("records")[0]

    @property
    def config(self) -> Config:
        """The resolved configuration, nested; ``train`` takes it."""
        return Config(read_yaml(self._inside.config_file))

    @property
    def curve(self) -> pd.DataFrame:
        """The held-out loss in the course of training: step, loss (nats), tokens, hours."""
        return Table(self.facts.curve, columns=list(Evaluation._fields))

    @property
    def scores(self) -> pd.DataFrame:
        """Every score so far as rows, the held-out loss first, with a column for each axis of its study."""
        tables, notes = read_tables({self.facts.run_id: self._inside})
        if notes and not tables:
            raise UsageError(notes[0])
        rows = pd.concat([held_out_rows([self.facts]), *tables.values()], ignore_index=True)
        return Table(rows.assign(run_id=self.facts.run_id, variant=self.variant, **self.places))

    @one_line_errors()
    def load(self, *, trust_remote_code: bool = False) -> Loaded:
        """Load the model, in fp32 and evaluation mode, and its tokenizer.

        Args:
            trust_remote_code: Run an FFN variant's file that lies with the model, which is code. One that
                this process has loaded needs no consent.

        Returns:
            A ``transformers.PreTrainedModel`` on the GPU if there is one, and its tokenizer.

        Raises:
            UsageError: If the run is not finished, or its folder is damaged.
        """
        return load_model(model_folder(self.folder), get_family(self.family).objective, trust_remote_code)

    @cached_property
    def _loaded(self) -> Loaded:
        return self.load()

    @property
    def model(self) -> Any:
        """The model of ``load``, loaded once."""
        return self._loaded[0]

    @property
    def model_path(self) -> Path:
        """The folder of model and tokenizer, which ``from_pretrained`` of transformers takes."""
        return model_folder(self.folder)

    @property
    def tokenizer(self) -> Any:
        """Its tokenizer, loaded with it."""
        return self._loaded[1]

    @one_line_errors()
    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write model and tokenizer as transformers reads them, with the model's card."""
        shutil.copytree(model_folder(self.folder), folder, dirs_exist_ok=True)

    @one_line_errors()
    def generate(
        self, prompt: str | Sequence[str] = "Once upon a time", max_new_tokens: int = 100, **settings: Any
    ) -> str | list[str]:
        """Continue a prompt, as ``ffn-ablations generate`` does; for causal families.

        Args:
            prompt: How the text begins; of several each is continued.
            max_new_tokens: Tokens to add at most.
            **settings: The command's other flags, with underscores: ``temperature``, ``top_p``, ``seed``,
                ``num``, ``trust_remote_code``.

        Returns:
            The text; of several prompts, or with ``num`` above 1, a list of texts.

        Raises:
            UsageError: If the run is not finished or of another family, or the prompt is too long.
        """
        prompts = [prompt] if isinstance(prompt, str) else list(prompt)
        lengths = {"prompt": prompts, "max_new_tokens": max_new_tokens}
        options = read_keywords(GenerateArgs, {"run": self.folder, **lengths, **settings})
        sampling = importlib.import_module("pretrain.sampling")
        model, tokenizer = sampling.load_causal_model(model_folder(self.folder), options.trust_remote_code)
        draws = options.model_dump(include={"max_new_tokens", "temperature", "top_p", "seed", "num"})
        texts = sampling.continue_texts(model, tokenizer, options.prompt, **draws)
        return texts[0] if isinstance(prompt, str) and options.num == 1 else texts

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

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[Run]:
        yield self

    def __getitem__(self, key: Any) -> Any:
        return Runs([self])[key]

    def __array__(self, *_: Any, **settings: Any) -> Any:
        """Tell whoever makes a frame of runs that there is one; pandas would take each for a sequence.

        Raises:
            UsageError: Always.
        """
        raise UsageError("a run is no array; runs.frame is the data frame of runs, a row a run")

    def __add__(self, other: Run | Iterable[Run]) -> Runs:
        return Runs([self]) + other

    def __repr__(self) -> str:
        loss = "not finished" if self.loss is None else f"held-out loss {self.loss:.4f}"
        return f"Run({self.name}, seed {self.seed}, {loss}, {os.fspath(self.folder)!r})"


Run.__init__ = one_line_errors()(Run.__init__)  # type: ignore[bad-assignment]
_COLUMNS = ("family", "variant", "seed", "loss", "parameters")


class Runs(Trained, list[Run]):
    """Several runs: a list that shows itself, and has what its ``frame`` has, such as ``runs.groupby``.

    ``runs[:2]`` are runs, ``runs["swish"]`` those of a variant, or the one run that it has,
    ``runs[["gelu", "swish"]]`` those of two, ``runs[runs.loss < 3]`` those with such a loss, and
    ``runs["loss"]`` a column of the frame.
    """

    other_names: ClassVar = OtherNames("attribute of runs")

    def __init__(self, runs: Iterable[Run | str | os.PathLike[str]] | str | os.PathLike[str] = ()) -> None:
        several = [runs] if isinstance(runs, str | os.PathLike) else runs
        super().__init__(Run(Path(run)) if isinstance(run, str | os.PathLike) else run for run in several)

    @property
    def frame(self) -> Table:
        """One row a run: family, variant, the study's axes, seed, loss (nats), parameters, folder.

        Where several rows would have one family, variant and seed, the settings that tell them apart, too.
        """
        axes = list(dict.fromkeys(axis for run in self for axis in run.places))
        rows = [
            {name: getattr(run, name) for name in _COLUMNS} | run.places | {"folder": str(run.folder)}
            for run in self
        ]
        table = Table(rows, columns=[*_COLUMNS[:2], *axes, *_COLUMNS[2:], "folder"])
        for place, name in enumerate(self.told_apart, start=2 + len(axes)):
            table.insert(place, name, [setting_of(run, name) for run in self])
        return table

    @property
    def told_apart(self) -> list[str]:
        """Settings in which runs of one family, variant, seed and level differ."""
        places = [(run.family, run.name, run.seed, *run.places.items()) for run in self]
        return differing_settings(
            run for run, place in zip(self, places, strict=True) if places.count(place) > 1
        )

    def __contains__(self, run: object) -> bool:
        return run in self.keys() if isinstance(run, str) else super().__contains__(run)

    @property
    def best(self) -> Run:
        """The run with the smallest loss."""
        return min(self, key=lambda run: math.inf if run.loss is None else run.loss)

    def mean(self) -> pd.Series:
        """Return the mean held-out loss of each variant."""
        return self.summary()["mean"]

    def std(self) -> pd.Series:
        """Return the standard deviation over the runs of each variant."""
        return self.summary()["std"]

    @property
    def loss(self) -> pd.Series:
        """Held-out loss of each run by variant and seed, in nats per target token."""
        return self.frame.set_index(["variant", "seed"])["loss"]

    @property
    def scores(self) -> pd.DataFrame:
        """Every score so far of every run as rows."""
        return Table(pd.concat([run.scores for run in self], ignore_index=True))

    @property
    def curves(self) -> pd.DataFrame:
        """The curve of each run, with its family, variant and seed."""
        who = ("family", "variant", "seed")
        return pd.concat([run.curve.assign(**{name: getattr(run, name) for name in who}) for run in self])

    def __getitem__(self, key: Any) -> Any:
        if callable(key):  # a class or function that was trained
            key = importlib.import_module("ffn_variants.spec").given_name(key)
        if isinstance(key, list | pd.Series | np.ndarray):
            if len(key) == len(self) and all(isinstance(each, bool | np.bool_) for each in key):
                return Runs(compress(self, key))
            if {*key} <= {*self.frame.columns}:
                return self.frame[list(key)]
            return Runs(run for each in key for run in as_runs(self[each]))
        if isinstance(key, tuple):
            if found := self.where(**dict(zip(("variant", "seed"), key, strict=False))):
                return found[0] if len(found) == 1 else found
            raise KeyError(f"there is no run of {key}; runs.frame lists them")
        if isinstance(key, str):
            if found := Runs(compress(self, is_called(pd.Index(self.frame["variant"]), key))):
                return found[0] if len(found) == 1 else found
            if (column := self.other_names.get(key, key)) in (frame := self.frame):
                return frame[column]
            raise KeyError(str(unknown_name("variant", key, self.keys())))
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
            **levels: One or a list of them, of ``family``, ``variant`` (``ffn``), ``seed``, an axis or a
                setting: ``where(variant="kan grid_size=3", size=["0.1M", "1M"], max_steps=20)``. A dotted
                one is passed as ``**{"optim.learning_rate": "0.003"}``.

        Raises:
            UsageError: For a name that is none of these.
        """
        levels = {self.other_names.get(name, name): level for name, level in levels.items()}
        columns = ["family", "variant", "seed", *self.axes]
        frame, is_kept = self.frame, np.ones(len(self), bool)
        for name, level in levels.items():
            has = frame[name] if name in columns else [setting_of(run, name) for run in self]
            if not any(each is not None for each in has):
                raise unknown_name("axis or setting of these runs:", name, columns)
            is_kept &= np.isin([str(each) for each in has], [str(each) for each in np.ravel(level)])
        return self[is_kept]

    def filter(self, keep: Any = None, **levels: Any) -> Runs:
        """Keep runs of some variants, those of which a function says so, or those of ``where(**levels)``."""
        found = filter(keep, self) if callable(keep) else (run for run in self if run.name in np.ravel(keep))
        return self.where(**levels) if keep is None else Runs(found)

    def __add__(self, other: Run | Iterable[Run]) -> Runs:  # type: ignore[bad-override]
        return Runs([*self, *([other] if isinstance(other, Run) else other)])

    __iadd__ = __add__  # type: ignore[bad-override]

    def __repr__(self) -> str:
        if not self:
            return "no runs"
        return f"{len(self)} run{'s' * (len(self) > 1)}\n{self.frame.to_string(index=False, max_rows=20)}"


def settings_of(run: Run) -> dict[str, Any]:
    """Return what decides a training by dotted name."""
    sections = {key: each for key, each in run.config.items() if isinstance(each, dict) and key != "output"}
    return {f"{key}.{name}": value for key, each in sections.items() for name, value in each.items()}


def differing_settings(runs: Iterable[Run]) -> list[str]:
    """Name the settings in which runs differ, by their last names where these are one's."""
    each = [settings_of(run) for run in runs]
    names = dict.fromkeys(name for settings in each for name in settings)
    last = [name.partition(".")[2] for name in names]
    return [
        name if last.count(short) > 1 else short
        for name, short in zip(names, last, strict=True)
        if name != "model.ffn" and len({str(settings.get(name)) for settings in each}) > 1
    ]


def setting_of(run: Run, name: str) -> Any:
    """Return a setting by a name that ``differing_settings`` gave, as text where it is no single value."""
    found = (each for key, each in settings_of(run).items() if name in (key, key.partition(".")[2]))
    value = next(found, None)
    return value if isinstance(value, str | int | float | None) else str(value)


def read_name(folder: Path) -> str:
    """Return what the variant of a run was called from Python; empty where it has its own name."""
    file = RunFolder(folder).name_file
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def write_name(folder: Path, name: str) -> None:
    """Keep what ``read_name`` returns."""
    if name != read_name(folder):
        write_text(RunFolder(folder).name_file, name)


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
    if isinstance(runs, str) and runs in SUITES:
        raise UsageError(f'"{runs}" is a suite; the runs come first: evaluate(runs, "{runs}")')
    if isinstance(runs, str | os.PathLike):
        return Runs(runs)
    if isinstance(runs, Sequence) and len(runs):
        return Runs([run for each in runs for run in as_runs(each)])
    raise UsageError(f"{shown_briefly(runs)} names no run: give what train(...) returned, or runs' folders")


@one_line_errors()
def load_config(name: str | os.PathLike[str]) -> Config:
    """Read a configuration, a shipped one (``"tiny"``) or a YAML file, as ``train`` takes it.

    Raises:
        UsageError: If there is none.
    """
    sections = {path[0]: {} for path, _ in leaf_fields(RunConfig) if len(path) > 1}
    return Config(sections | read_yaml(find_config(Path(name), "config")))


@one_line_errors()
def load(folder: str | os.PathLike[str], *, trust_remote_code: bool = False) -> Run | Runs | Loaded:
    """Open a run's folder, all runs below a folder, such as a study's or what ``save`` wrote, or a model.

    Args:
        folder: Of a run, of runs, or what ``save_pretrained`` wrote, of which model and tokenizer are loaded.
        trust_remote_code: As of ``Run.load``, for a model.

    Raises:
        UsageError: If there is none.
    """
    opened = RunFolder(Path(folder))
    if (file := opened.path / "config.json").is_file():
        family = family_of(str(read_json(file).get("model_type")))
        return load_model(opened.path, family.objective if family else "causal", trust_remote_code)
    below = sorted(file.parent for file in opened.path.rglob(opened.config_file.name))
    runs = Runs([folder] if opened.is_run or not below else below)
    return runs[0] if len(runs) == 1 else runs


def load_model(folder: Path, objective: str, trust_remote_code: bool) -> Loaded:
    """Load what ``save_pretrained`` wrote, in fp32 and evaluation mode, on the GPU if there is one."""
    loading = importlib.import_module("ffn_variants.models.loading")
    return Loaded(*loading.load_language_model(folder, objective, trust_remote_code=trust_remote_code))


def of_one_source(runs: Iterable[Run]) -> tuple[Runs, list[str]]:
    """Keep each run once, of an edited variant those of its newest source, and name the others."""
    each = {id(run.facts): run for run in dict.fromkeys(runs)}
    facts, notes = of_newest_sources([run.facts for run in each.values()])
    return Runs(each[id(one)] for one in facts), notes
