"""What stands in a study's YAML file, and what is refused in it before anything is expanded."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from base.config_input import parse_seeds
from base.errors import UsageError, shown, unknown_name
from base.families import BASELINE, FAMILIES
from base.options import check_name
from base.sections import Section, leaf_fields
from eval.classification.schema import benchmarks_asked_for
from eval.config import EvalConfig
from pretrain.config import RunConfig
from report.significance.axes import RECIPE, SIZE, TOKENS, Benchmark
from report.significance.axes import Level as Compared
from report.significance.factor import check_factor, find_level, levels, listed_heads, noun, parse_contrast
from report.statistics.looks import Plan, read_plan
from scores.head_descriptions import check_head, parse_head
from scores.published import PublishedSource
from scores.suites import HELD_OUT, SUITES
from slurm.study import ffn_levels
from slurm.study.cells import BackboneConfig, check_backbones
from slurm.study.tune_section import TuneConfig, read_tune


def read_seeds(value: object) -> tuple[int, ...]:
    """Read a list of seeds, or words such as ``1-3``.

    Raises:
        UsageError: If it is none of these.
    """
    if isinstance(value, int):
        raise UsageError(f"{value} is one number; write [{value}] for one seed, or a range such as 1-3")
    return parse_seeds(value if isinstance(value, list | tuple) else [value], "", "[1, 2, 3] or 1-3")


def read_families(value: object) -> object:
    """Refuse names without base configs, and unknown families, which a base config would be blamed for.

    Raises:
        UsageError: Saying what to write.
    """
    if not isinstance(value, dict):
        example = "such as {gpt_neo: tiny} or {roberta: tiny-roberta}"
        raise UsageError(f"name each family with its base config, {example} (is {shown(value)})")
    for family in value:
        if family not in FAMILIES:
            raise unknown_name("family", family, FAMILIES)
    return value


# A short word, as it stands in tables. YAML reads a name like 10 as a number.
PointName = Annotated[str, Field(pattern=r"^[^\W_][\w.+-]{0,39}$", coerce_numbers_to_str=True)]
PointValues = Annotated[dict[str, Any], BeforeValidator(lambda values: {} if values is None else values)]
"""What a size or a recipe sets; nothing where it is the base config."""


def _of_outcomes(margins: Any) -> Any:
    if isinstance(margins, float | int):
        raise ValueError(f"names no outcome; write {{{HELD_OUT}: {margins:g}}}, or another outcome's name")
    return margins


class ReportConfig(Section):
    """What the report compares."""

    factor: str = "ffn"
    """What is compared: ``ffn`` variants, classification heads (``head``), ``both`` as ``kan/linear``, or the
    levels of an axis: ``size``, ``recipe``, ``tokens``, or a field such as ``optim.learning_rate``."""
    baseline: Annotated[str, Field(coerce_numbers_to_str=True)] = BASELINE
    """The variant, head, combination or level that every other one is compared with."""
    margin: Annotated[float, Field(gt=0, lt=100)] = 1.0
    """Differences below this many percentage points are negligible; fixed before the results are seen."""
    margins: Annotated[
        dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]], BeforeValidator(_of_outcomes)
    ] = Field(default_factory=dict)
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
    published: PublishedSource | None = None
    """A source whose claims and tables stand beside the study's scores, such as ``thesis``."""
    note: Annotated[str, Field(max_length=1000)] = ""
    """What a reader must know and no record tells, such as a grid that was given up after first results; the
    report prints it beside what was asked before them."""

    @property
    def decisive(self) -> dict[str, Any]:
        """What decides the report's claims, as JSON."""
        return self.model_dump(mode="json", exclude={"note", "published"})


class StudyConfig(Section):
    """One study, as written in ``configs/studies/*.yaml``."""

    hints: ClassVar = {
        name: f"write {'it' if name == path[0] else f'{path[0]}: {{{path[1]}: VALUE}}'} under config:"
        for path, name in (
            *((path, name) for path, _ in leaf_fields(RunConfig) for name in path if len(path) == 2),
            *RunConfig.short_names.items(),
        )
    } | {
        "evaluation": "as {suites: [embedded-pairs]}",
        "config": "as {optim: {max_steps: 100}}",
        "sizes": "as {small: {model: {hidden_size: 64}}}",
        "axes": "as {optim.learning_rate: [0.001, 0.003]}",
    }

    name: Annotated[str, AfterValidator(check_name)]
    """Names the folder below ``runs/``."""
    families: Annotated[dict[str, str], BeforeValidator(read_families)] = Field(default_factory=dict)
    """Family name to its base config: the name of a shipped one, or a path from the study file's folder."""
    variants: tuple[str, ...] = ()
    """FFN variants by name, with options where they are wanted (``kan grid_size=3 ffn_budget=params``), or as
    ``path/to/mine.py:SPEC``, where a relative path starts at the study file's folder. A file that is not in
    that folder is run with ``--trust-remote-code`` only."""
    sizes: Annotated[dict[PointName, PointValues], Field(min_length=1)] = Field(default_factory=dict)
    """Name of a size to what it sets on top of every base config, in the same nested form."""
    recipes: Annotated[dict[PointName, PointValues], Field(min_length=1)] = Field(default_factory=dict)
    """Name of a recipe to what it sets, in the same form, such as ``{muon: {optim: {optimizer: muon}}}``: the
    report says how much each lets the study see, and for how long a training."""
    tokens: Annotated[tuple[Any, ...], Field(min_length=1)] = ()
    """Training tokens of a run, such as ``[1M, 4M]``; each has a schedule of its own."""
    axes: dict[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = Field(default_factory=dict)
    """Any field of a run's configuration by its dotted name, and its values."""
    tune: Annotated[TuneConfig | None, BeforeValidator(read_tune)] = None
    """Fields that every variant gets its own best value of before it is compared, by their dotted names, and
    how that is found: ``{optim.learning_rate: [3e-4, 1e-3, 3e-3], seeds: [101, 102, 103]}``."""
    backbones: tuple[BackboneConfig, ...] = ()
    """In place of families and variants: pretrained models to be scored, on the hub (``name@revision``),
    folders or runs; nothing is trained but classifiers, and seeds are of fine-tuning. One may have tasks or a
    pooling of its own: ``{model: name, classify: [sst5], pooling: last}``."""
    seeds: Annotated[tuple[int, ...], BeforeValidator(read_seeds)]
    """``[1, 2, 3]`` or ``1-3``."""
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
            baseline, contrasts = (
                ffn_levels.canonical(baseline),
                tuple(map(ffn_levels.canonical_contrast, contrasts)),
            )
        elif report.factor in self.points:
            baseline = ffn_levels.canonical_level(report.factor, baseline)
        changes = {"baseline": baseline, "contrasts": contrasts}
        return self.model_copy(update={"report": report.model_copy(update=changes)})

    @model_validator(mode="after")
    def _trains_or_scores(self) -> StudyConfig:
        """Refuse a study that has neither families with variants nor backbones, or that mixes the two."""
        if not self.backbones:
            for name in ("families", "variants"):
                if not getattr(self, name):
                    cure = "name families and variants to train, or backbones"
                    cure = f"write {name} beside config:, not under it" if name in self.config else cure
                    raise ValueError(f"{name} are missing; {cure}")
            return self
        names = ("families", "variants", "tune", "sizes", "recipes", "tokens", "axes", "config")
        for name in names:
            if getattr(self, name) and not (name == "config" and self.config.keys() == {"output"}):
                raise ValueError(f"{name} has no effect on backbones, as nothing is pretrained; leave it out")
        check_backbones(self.backbones, self.evaluation)
        return self

    @model_validator(mode="after")
    def _compared_exists(self) -> StudyConfig:
        """Refuse comparisons of what the study does not have, and outcomes that it does not score."""
        report, compared = self.report, self.compared
        what = f"baseline {noun(report.factor)} in report.baseline (add it to those that are run)"
        find_level(report.factor, report.baseline, compared, what)
        for contrast in report.contrasts:
            parse_contrast(contrast, compared, report.baseline, report.factor)
        outcomes = self._outcomes()
        if outcomes == [HELD_OUT] and report.margin != ReportConfig().margin:
            raise ValueError(
                f"report.margin is of percentages, and the one outcome is a loss; write report.margins "
                f"{{{HELD_OUT}: {report.margin:g}}}, in nats"
            )
        for section, names in (("margins", report.margins), ("primary", report.primary)):
            for name in names:
                if name not in outcomes:
                    raise unknown_name(f"outcome in report.{section}", name, outcomes)
        return self

    @model_validator(mode="after")
    def _fields_are_set_once(self) -> StudyConfig:
        """Refuse a field that two of config, sizes, recipes, tokens, axes and tune would set."""
        # With tune: {optim.learning_rate: ...}, a config {optim: {learning_rate: 0.01}} is refused, and so is
        # {variants: {kan: {optim: {learning_rate: 0.01}}}}, which sets the same field.
        reasons = dict(ffn_levels.SET_BY_STUDY)  # by field why nothing else may set it
        if self.tune or len(self.seeds) > 1 or self.backbones:
            reasons["output.run_name"] = "it would give all runs one folder"
        tuned = (*self.tune.fields, "data.validation_part") if self.tune else ()
        steps = ("optim.max_steps", "optim.num_train_epochs") if self.tokens else ()
        for place, fields, reason in (
            ("tokens", steps, "tokens decide it"),
            ("tune", tuned, "tune tries it"),
            ("axes", self.axes, "axes set it"),
        ):
            for name in fields:
                if name in reasons:
                    raise ValueError(f"{place}.{name} has no effect: {reasons[name]}; leave it out")
                reasons[name] = reason
        set_by: dict[str, str] = {}  # by leaf the section that sets it
        for section, named in (
            ("config", {"": self.config}),
            ("sizes", self.sizes),
            ("recipes", self.recipes),
        ):
            for level, values in named.items():
                for name, leaf in ffn_levels.settings(values):
                    other = set_by.setdefault(leaf, section)
                    reason = reasons.get(name) or (f"{other} sets it too" if other != section else "")
                    if reason:
                        place = f"{section}.{level}" if level else section
                        raise ValueError(f"{place}.{leaf} has no effect: {reason}; leave it out")
        return self

    @model_validator(mode="after")
    def _tuning_is_fair(self) -> StudyConfig:
        """Refuse a tuning on runs that are compared, or with unequal budgets."""
        if not self.tune:
            return self
        if both := sorted(set(self.tune.seeds) & set(self.seeds)):
            raise ValueError(
                f"tune.seeds {', '.join(map(str, both))} are seeds of the study too, and would choose on "
                "runs that are compared; name others, such as [101, 102, 103]"
            )
        if "train.batch_size" in self.tune.fields and not self.tokens:
            raise ValueError(
                "tune.train.batch_size gives runs of as many steps other numbers of tokens, so the budget "
                "cannot be equal; name tokens: [...], and each has as many"
            )
        return self

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
        return tuple(map(str, self.levels)) or tuple(x.at_seed(0).variant for x in self.backbones)

    @property
    def levels(self) -> tuple[ffn_levels.Level, ...]:
        """The FFN variants with their options, as they are trained; looked up: the registry loads torch."""
        return tuple(map(ffn_levels.read_level, self.variants))

    @cached_property
    def points(self) -> Mapping[str, tuple[ffn_levels.Point, ...]]:
        """The axes beside the variant, in order, and the levels of each; empty without any."""
        points = {
            axis: tuple(ffn_levels.Point(axis, name, values) for name, values in named.items())
            for axis, named in ((SIZE, self.sizes), (RECIPE, self.recipes))
            if named
        }
        if self.tokens:
            points[TOKENS] = ffn_levels.tokens_points(self.tokens)
        return points | {name: ffn_levels.field_points(name, values) for name, values in self.axes.items()}

    @property
    def axis_levels(self) -> dict[str, tuple[str, ...]]:
        """The names of the levels of each axis beside the variant."""
        return {name: tuple(point.level for point in points) for name, points in self.points.items()}

    @property
    def compared(self) -> tuple[Compared, ...]:
        """The levels of what the report compares."""
        return levels(self.report.factor, self.models, self.heads, self.axis_levels)

    @property
    def tuned_baseline(self) -> str:
        """The variant whose best is shared: the report's baseline, where that is one, else the first."""
        baseline = self.report.baseline.split("/")[0]
        return baseline if baseline in self.models else self.models[0]

    @property
    def heads(self) -> tuple[str, ...]:
        """The classification heads that every run is fine-tuned with, as rows name them."""
        choices = [parse_head(text) for text in listed_heads(self.evaluation.finetune.model_dump())]
        return tuple(dict.fromkeys(str(check_head(choice)) for choice in choices))
