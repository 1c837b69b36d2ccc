"""What stands in a study's YAML file, and what is refused in it before anything is expanded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

import ffn_variants
from base.config_input import LONGEST_RANGE, parse_seeds
from base.errors import UsageError, shown, unknown_name
from base.families import get_family
from base.mistakes import check
from base.names import BASELINE, check_name
from base.sections import Section
from eval.backbones import StudyBackbone
from eval.classification.schema import benchmarks_asked_for, classified_benchmarks
from eval.config import EvalConfig
from report.significance.axes import Benchmark
from report.significance.axes import Level as Compared
from report.significance.contrasts import parse_contrast
from report.significance.factor import OF_HEADS, check_factor, find_level, levels, listed_heads, noun
from report.statistics.looks import MOST_LOOKS, Plan, read_plan
from scores.heads.registry import check_head, parse_head
from scores.suites.registry import HELD_OUT, SUITES
from slurm.study.axes.levels import Level, canonical, canonical_contrast, read_level
from slurm.study.axes.points import (
    SAID_BY_STUDY,
    SIZE,
    TOKENS,
    Point,
    canonical_level,
    field_points,
    find,
    leaves,
    settings,
    size_points,
    tokens_points,
    write_value,
)
from slurm.study.cells import check_backbones
from slurm.study.tuning.schema import TuneConfig, check_tune, read_tune


class AdaptiveSeeds(Section):
    """Seeds from 1 on, of which only undecided comparisons get more than the first."""

    first: Annotated[int, Field(ge=2)]
    """Seeds of every variant, at which all comparisons are looked at for the first time."""
    most: Annotated[int, Field(le=LONGEST_RANGE)]
    """Seeds at the last look; none gets more."""
    until: Literal["decided"] = "decided"
    """A variant gets ``first`` more at a time until all its comparisons are decided."""

    @model_validator(mode="after")
    def _grow(self) -> AdaptiveSeeds:
        if self.most <= self.first:
            raise ValueError(
                f"most is {self.most} and first {self.first}; most must be greater, or leave both out and "
                f"write 1-{self.first}"
            )
        return self

    @property
    def numbers(self) -> tuple[int, ...]:
        """All seeds that there may be."""
        return tuple(range(1, self.most + 1))

    @property
    def looks(self) -> tuple[int, ...]:
        """How many seeds there are at each look."""
        return (*range(self.first, self.most, self.first), self.most)


def read_seeds(value: object) -> tuple[int, ...] | AdaptiveSeeds:
    """Read a list of seeds, words such as ``1-3``, or ``{first: 3, most: 12, until: decided}``.

    Raises:
        UsageError: If it is none of these.
    """
    if isinstance(value, AdaptiveSeeds):
        return value
    if isinstance(value, dict):
        return check(AdaptiveSeeds, value)
    if isinstance(value, int):
        raise UsageError(f"{value} is one number; write [{value}] for one seed, or a range such as 1-3")
    return parse_seeds(value if isinstance(value, list | tuple) else [value], "", "[1, 2, 3] or 1-3")


_SIZE_NAME = re.compile(r"[^\W_][\w.+-]{0,39}")


class ReportConfig(Section):
    """What the report compares."""

    factor: str = "ffn"
    """What is compared: ``ffn`` variants, classification heads (``head``), ``both`` as ``kan/linear``, or the
    levels of an axis: ``size``, ``tokens``, or a field such as ``optim.learning_rate``."""
    baseline: Annotated[str, BeforeValidator(lambda value: _text(value))] = BASELINE
    """The variant, head, combination or level that every other one is compared with."""
    margin: Annotated[float, Field(gt=0, lt=100)] = 1.0
    """Differences below this many percentage points are negligible; fixed before the results are seen."""
    margins: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(default_factory=dict)
    """The same for single outcomes, each in its own unit: ``{held-out-loss: 0.02, blimp: 1.0}``."""
    primary: tuple[str, ...] = ()
    """Outcomes that the report makes claims about, such as ``[held-out-loss, blimp]``, corrected together;
    others are explored. Without any, claims are about all: each one more makes all of them harder to show."""
    contrasts: tuple[str, ...] = ()
    """Further comparisons of groups of variants, such as ``relu+silu - prelu+swish``."""
    paired: bool = False
    """Compare runs of one family and seed with each other instead of treating seeds as independent; heads
    always are."""
    looks: Annotated[Plan | None, BeforeValidator(lambda value: read_plan(value, ""))] = None
    """Numbers of runs in every arm at which the report is read, such as ``[3, 6, 10]``: the tests then hold
    their level over all of these looks together."""
    note: Annotated[str, Field(max_length=1000)] = ""
    """What a reader must know and no record tells, such as a grid that was given up after first results; the
    report prints it beside what was asked before them."""

    @model_validator(mode="before")
    @classmethod
    def _without_former_keys(cls, values: Any) -> Any:
        """Take what older files say of the one rule that there is now, and refuse what it replaced."""
        if not isinstance(values, Mapping):
            return values
        for key, former in FORMER_KEYS.items():
            if values.get(key, former[0]) not in former:
                raise ValueError(
                    f"report.{key} {values[key]} is gone, as whole studies are drawn in every report; leave "
                    f"report.{key} out"
                )
        return {key: value for key, value in values.items() if key not in FORMER_KEYS}

    @property
    def asked(self) -> dict[str, Any]:
        """What decides the report's claims, as JSON."""
        return self.model_dump(mode="json", exclude={"note"})


FORMER_KEYS = {"method": ("welch",), "correction": ("holm", "max-t")}
"""Of a study's ``report``, with what older versions wrote there that the one rule stands for now."""


class StudyConfig(Section):
    """One study, as written in ``configs/studies/*.yaml``."""

    name: Annotated[str, AfterValidator(check_name)]
    """Names the folder below ``runs/``."""
    families: dict[str, str] = Field(default_factory=dict)
    """Family name to its base config: the name of a shipped one, or a path from the study file's folder."""
    variants: tuple[str, ...] = ()
    """FFN variants by name, with options where they are wanted (``kan grid_size=3 ffn_budget=params``), or as
    ``path/to/mine.py:SPEC``, where a relative path starts at the study file's folder. Such a file is run with
    ``--trust-remote-code`` only."""
    sizes: Annotated[dict[str, dict[str, Any]], BeforeValidator(lambda value: _sizes(value))] = Field(
        default_factory=dict
    )
    """Name of a size to what it sets on top of every base config, in the same nested form."""
    tokens: tuple[Any, ...] = ()
    """Training tokens of a run, such as ``[1M, 4M]``; each has a schedule of its own."""
    axes: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    """Any field of a run's configuration by its dotted name, and its values."""
    tune: Annotated[TuneConfig | None, BeforeValidator(read_tune)] = None
    """Fields that every variant gets its own best value of before it is compared, by their dotted names, and
    how that is found: ``{optim.learning_rate: [3e-4, 1e-3, 3e-3], seeds: [101, 102, 103]}``."""
    backbones: tuple[str, ...] = ()
    """In place of both: pretrained models to be scored, on the hub (``name@revision``), folders or runs;
    nothing is trained but classifiers, and seeds are of fine-tuning."""
    seeds: Annotated[tuple[int, ...] | AdaptiveSeeds, BeforeValidator(read_seeds)]
    """``[1, 2, 3]``, ``1-3``, or ``{first: 3, most: 12, until: decided}``: more for what is undecided."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Values that replace those of every base config, in the same nested form."""
    evaluation: EvalConfig = EvalConfig()
    report: ReportConfig = ReportConfig()

    @model_validator(mode="after")
    def _levels_have_one_name(self) -> StudyConfig:
        """Write what is compared as rows do, however options and numbers are written."""
        report = self.report
        check_factor(report.factor, self.points, "factor in report.factor")
        baseline, contrasts = report.baseline, report.contrasts
        if report.factor == "ffn":
            baseline, contrasts = canonical(baseline), tuple(map(canonical_contrast, contrasts))
        elif report.factor in self.points:
            baseline = canonical_level(report.factor, baseline)
        changes = {"baseline": baseline, "contrasts": contrasts}
        return self.model_copy(update={"report": report.model_copy(update=changes)})

    @model_validator(mode="after")
    def _names_exist(self) -> StudyConfig:
        self._check_what_is_scored()
        for family in self.families:
            get_family(family)
        for label, values in (("variants", self.models), ("seeds", self.all_seeds)):
            if len(set(values)) != len(values):
                raise ValueError(f"{label} are named twice: {', '.join(map(str, values))}; name each once")
        report = self.report
        self._check_what_is_compared()
        outcomes = self._outcomes()
        for section, names in (("margins", report.margins), ("primary", report.primary)):
            for name in names:
                if name not in outcomes:
                    raise unknown_name(f"outcome in report.{section}", name, outcomes)
        return self

    def _check_what_is_compared(self) -> None:
        report, compared = self.report, self.compared
        factor = report.factor
        find_level(factor, report.baseline, compared, f"baseline {noun(factor)} in report.baseline")
        for contrast in report.contrasts:
            parse_contrast(contrast, compared, report.baseline, factor)

    def _check_what_is_scored(self) -> None:
        """Refuse anything but families with variants, or backbones with what can be asked of them."""
        if not self.backbones:
            for name in ("families", "variants"):
                if not getattr(self, name):
                    raise ValueError(
                        f"{name} are not named; name families and variants to be trained, or backbones"
                    )
            return
        if self.families or self.variants:
            raise ValueError("backbones stand in place of families and variants; leave out one or the other")
        if self.tune:
            raise ValueError(
                "tune is of what is trained, and backbones are not; a frozen head has "
                "evaluation.finetune.head_learning_rates and init_scales for it"
            )
        for name in ("sizes", "tokens", "axes"):
            if getattr(self, name):
                raise ValueError(f"{name} has no effect on backbones, as nothing is pretrained; leave it out")
        if set(self.config) - {"output"}:
            raise ValueError("config has no effect on backbones, as nothing is pretrained; leave it out")
        if find(self.config, "output.run_name") is not None:
            raise ValueError("config.output.run_name has no effect on backbones; leave it out")
        check_backbones(self.backbones, self.evaluation)

    @model_validator(mode="after")
    def _config_leaves_identities(self) -> StudyConfig:
        """Refuse in ``config`` what the study itself says of each run."""
        _check_identities("config", self.config)
        named = find(self.config, "output.run_name")
        if named is not None and len(self.all_seeds) > 1:
            raise ValueError(
                f"config.output.run_name {shown(named)} gives the runs of {len(self.all_seeds)} seeds one "
                "folder; leave it out, and each has a folder of its own, or name one seed"
            )
        return self

    @model_validator(mode="after")
    def _axes_say_what_nothing_else_does(self) -> StudyConfig:
        """Refuse a field that two of ``config``, ``sizes``, ``tokens`` and ``axes`` would set."""
        for name, values in self.sizes.items():
            _check_identities(f"sizes.{name}", values)
            if "output" in values:
                raise ValueError(f"sizes.{name}.output has no effect on a size; write it under config")
            for variant in _mapping(values.get("variants")):
                _told_of(f"sizes.{name}.variants", variant)
        steps = ("optim.max_steps", "optim.num_train_epochs") if self.tokens else ()
        said = {**dict.fromkeys(steps, TOKENS), **dict.fromkeys(self.axes, "axes")}
        if doubly := next((name for name in steps if name in self.axes), None):
            raise ValueError(f"axes: {doubly} is what tokens decide; leave one of them out")
        in_config = set(leaves(self.config))
        for place, values in (("config", self.config), *((f"sizes.{k}", v) for k, v in self.sizes.items())):
            if not isinstance(model := values.get("model") or {}, Mapping):  # its variant would replace it
                raise ValueError(f"{place}.model {shown(model)} must be a mapping, as {{hidden_size: 64}}")
            for field, leaf in settings(values):
                if field in said:
                    raise ValueError(f"{place}.{leaf} has no effect, as {said[field]} say it; leave one out")
                if place != "config" and leaf in in_config:
                    raise ValueError(f"{place}.{leaf} and config.{leaf} set the same; leave one of them out")
        return self

    @model_validator(mode="after")
    def _tuning_fits(self) -> StudyConfig:
        """Refuse a tuning of what the study says elsewhere, or on runs that are compared."""
        if self.tune:
            sizes = {f"sizes.{name}": values for name, values in self.sizes.items()}
            elsewhere = {"axes": self.axes, "config": self.config, **sizes}
            check_tune(self.tune, self.all_seeds, bool(self.tokens), elsewhere)
        return self

    @model_validator(mode="after")
    def _heads_have_the_outcomes(self) -> StudyConfig:
        """Refuse claims about outcomes that classification heads have no part in."""
        if self.report.factor not in OF_HEADS:
            return self
        suites = [name for name in self.evaluation.suites if SUITES[name].kind == "classification"]
        able = [*suites, *classified_benchmarks(self.evaluation)]
        for name in self.report.primary:
            if name not in able:
                raise ValueError(
                    f"report.primary {name} is not scored under a head, and report.factor is "
                    f"{self.report.factor}; name of {', '.join(able) or 'no outcome here'}"
                )
        return self

    @model_validator(mode="after")
    def _tests_know_the_looks(self) -> StudyConfig:
        """Let the report correct for the looks of seeds that are added."""
        if not isinstance(self.seeds, AdaptiveSeeds):
            return self
        if len(self.looks) > MOST_LOOKS:
            raise ValueError(
                f"seeds: first {self.seeds.first} and most {self.seeds.most} make {len(self.looks)} looks, "
                f"and {MOST_LOOKS} are allowed; raise first, or name them in report.looks"
            )
        looks, first, most = self.looks, self.seeds.first, self.seeds.most
        if (looks[0], looks[-1]) != (first, most):
            raise ValueError(
                f"report.looks are {looks[0]} to {looks[-1]} and seeds {first} to {most}; the first and the "
                "last must agree, or leave report.looks out"
            )
        report = self.report.model_copy(update={"looks": looks})
        return self.model_copy(update={"report": report})

    def _outcomes(self) -> list[str]:
        """Name what the study's runs will be compared by: benchmarks, and suites' graded metrics."""
        benchmarks = benchmarks_asked_for(self.evaluation)
        graded = [
            str(Benchmark(name, metric=metric.name))
            for name in benchmarks
            for metric in (SUITES[name].graded if name in SUITES else ())
        ]
        return [HELD_OUT, *benchmarks, *graded]

    @property
    def models(self) -> tuple[str, ...]:
        """What stands in rows as the variant: FFN variants, or the names of backbones."""
        return tuple(map(str, self.levels)) or tuple(StudyBackbone(x, 0).variant for x in self.backbones)

    @property
    def levels(self) -> tuple[Level, ...]:
        """The FFN variants with their options, as they are trained; looked up: the registry loads torch."""
        return tuple(map(read_level, self.variants))

    @cached_property
    def points(self) -> Mapping[str, tuple[Point, ...]]:
        """The axes beside the variant, in order, and the levels of each; empty without any."""
        found = {SIZE: size_points(self.sizes)} if self.sizes else {}
        if "tokens" in self.model_fields_set:
            found[TOKENS] = tokens_points(self.tokens)
        return found | {name: field_points(name, values) for name, values in self.axes.items()}

    @property
    def compared(self) -> tuple[Compared, ...]:
        """The levels of what the report compares."""
        axes = {name: tuple(point.level for point in points) for name, points in self.points.items()}
        return levels(self.report.factor, self.models, self.heads, axes)

    @property
    def tuned_baseline(self) -> str:
        """The variant whose best is shared: the report's baseline, where that is one, else the first."""
        named = self.report.baseline.split("/")[0]
        return named if named in self.models else self.models[0]

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """Every seed that there may be."""
        return self.seeds.numbers if isinstance(self.seeds, AdaptiveSeeds) else self.seeds

    @property
    def looks(self) -> tuple[int, ...]:
        """Seeds at every look at which it is decided who gets more; none where all seeds are named."""
        if not isinstance(self.seeds, AdaptiveSeeds):
            return ()
        return self.report.looks or self.seeds.looks

    @property
    def heads(self) -> tuple[str, ...]:
        """The classification heads that every run is fine-tuned with, as rows name them."""
        choices = [parse_head(text) for text in listed_heads(self.evaluation.finetune.model_dump())]
        return tuple(dict.fromkeys(str(check_head(choice)) for choice in choices))


def _check_identities(place: str, values: Mapping[str, Any]) -> None:
    """Refuse what the study itself says of each run."""
    for name, said in SAID_BY_STUDY.items():
        if find(values, name) is not None:
            raise ValueError(f"{place}.{name} has no effect in a study; {said}")


def _told_of(place: str, variant: object) -> None:
    try:
        ffn_variants.get_variant(str(variant))
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> Any:
    """Numbers stand for a level that is one."""
    return write_value(value) if isinstance(value, int | float) else value


def _sizes(value: Any) -> Any:
    """Read names of sizes as texts, and a size that sets nothing as the base config."""
    if not isinstance(value, Mapping):
        return value
    if not value:
        raise UsageError("no size is named; name one or more, or leave sizes out")
    found: dict[str, Any] = {}
    for key, values in value.items():
        name = "" if key is None else str(key)
        if not _SIZE_NAME.fullmatch(name):
            raise UsageError(
                f"{shown(name)} is no name of a size; write a short one, of letters, digits and . _ + -"
            )
        if name in found:
            raise UsageError(f"{name} is named twice; name each size once")
        found[name] = {} if values is None else values
    return found
