"""The page of a look inside, as Markdown: what can be taken away first, then each part, then how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np
import pandas as pd

from eval.inspection.closed_forms import FORMS, GOOD, NO_FORM
from eval.inspection.figures.strip import by_arm
from eval.inspection.findings import DIFFERS, EQUAL, LEVEL, ONE_RUN
from eval.inspection.kan_edges import MEASURES
from eval.inspection.pruning import TOLERANCE
from eval.inspection.sentences import enough_digits, name_of, three_sentences, written
from eval.report.document import markdown
from eval.report.document.document import Document, Drawing
from eval.report.document.markdown import anchor, details, p_value, signed, table
from eval.report.document.names import file_name
from eval.results.inspection import Finding, RunInspection

KINDS = ("trained", "untrained", "random")


@dataclass(frozen=True, kw_only=True)
class Page:
    """What the page is made of.

    Attributes:
        runs: What was measured.
        findings: Over them.
        figures: By name.
        versions: Of the software.
        cost: Of the measuring, in words.
        notes: What was left out.
    """

    runs: Sequence[RunInspection]
    findings: Sequence[Finding]
    figures: Mapping[str, Drawing]
    versions: Mapping[str, str]
    cost: str
    notes: Sequence[str]

    def figure(self, name: str) -> str:
        """Link a figure, or nothing if it was not drawn."""
        return markdown.figure(name, self.figures[name][1]) if name in self.figures else ""

    def of(self, part: str) -> list[Finding]:
        """The findings of a part."""
        return [finding for finding in self.findings if finding.question == part]


def document(page: Page, title: str, command: str) -> Document:
    """Make the document of a page that a command makes again."""
    record = {"runs": list(map(asdict, page.runs)), "notes": page.notes, "versions": page.versions}
    findings = pd.DataFrame(map(asdict, page.findings), columns=[x.name for x in fields(Finding)])
    return Document(
        title=f"A look inside {title}",
        blocks=blocks(page),
        figures=page.figures,
        tables={"findings": findings, "summaries": _summaries(page.runs)},
        record=record,
        command=command,
    )


def _summaries(runs: Sequence[RunInspection]) -> pd.DataFrame:
    """A row for each run, what was measured, and whether of the trained, untrained or random functions."""
    rows = [
        (run.run_id, run.family, run.variant, run.seed, measure, kind, value)
        for run in runs
        for measure, values in run.summaries.items()
        for kind, value in values.items()
    ]
    return pd.DataFrame(rows, columns=["run_id", "family", "variant", "seed", "measure", "of", "value"])


def blocks(page: Page) -> tuple[str, ...]:
    """Write the page below its heading."""
    sections = [
        _activations(page),
        _edges(page),
        _pruning(page),
        _stability(page),
        _across(page),
        _methods(page),
    ]
    titles = [*(text.split("\n", 1)[0].removeprefix("## ") for text in sections if text), "Reproduce"]
    links = " · ".join(f"[{title}](#{anchor(title)})" for title in titles)
    first = [
        "\n".join(
            f"{number}. {text}" for number, text in enumerate(three_sentences(page.runs, page.findings), 1)
        ),
        _scope(page),
        page.figure("functions"),
        f"**Contents:** {links}",
    ]
    return (*first, *sections)


def _scope(page: Page) -> str:
    counts = [len(found) for _, found in by_arm(page.runs)]
    runs = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    tokens = max(run.num_tokens for run in page.runs)
    parts = [
        f"{len(page.runs)} runs, {runs} of each of {len(counts)} variants, on {tokens:,} tokens of held-out "
        f"text. Intervals hold together for all {len(page.findings)} findings of this page, at "
        f"{1 - LEVEL:.0%}; runs are what is counted."
    ]
    if any(finding.verdict == ONE_RUN for finding in page.findings):
        parts.append(
            "> [!WARNING]\n> With one run of a variant nothing can be said of another training of it."
        )
    return "\n\n".join(parts)


def _cell(
    arm: Sequence[RunInspection], name: str, digits: int, kind: str = "trained", factor: float = 1
) -> str:
    found = [run.summaries[name][kind] * factor for run in arm if kind in run.summaries.get(name, {})]
    if not found:
        return "-"
    spread = f" ± {np.std(found, ddof=1):.{digits}f}" if len(found) > 1 else ""
    return f"{np.mean(found):.{digits}f}{spread}"


def _activations(page: Page) -> str:
    found = [(name, arm) for name, arm in by_arm(page.runs) if arm[0].activations]
    if not found:
        return ""
    header = ("variant", "moved (%)", "start back", "and refitted", "mean of channels", "shuffled")
    header = (*header, "dead (%)", "saturated (%)")
    rows = [
        (f"`{name}`", _cell(arm, "activation moved", 1), *(_cell(arm, f"reset {x}", 4) for x in
         ("start", "refitted", "mean", "shuffled")), _cell(arm, "activation dead", 1, factor=100),
         _cell(arm, "activation saturated", 1, factor=100))
        for name, arm in found
    ]  # fmt: skip
    learnable = [arm for _, arm in found if arm[0].resets]
    fixed = [f"`{name}`" for name, arm in found if not arm[0].resets]
    said = [
        "Does an adaptive activation leave its start, and is the change used? *Moved* is the root mean "
        "square change of what it gives on its own inputs. The next columns say how many nats the "
        "held-out loss rises by when the trained model gets other parameters: those of its start; those "
        "of its start, with the linear layer behind fitted anew to what it gave, so that only what no "
        "linear layer can do is "
        "lost; the mean over channels; and the channels' own, in another order. Mean and standard deviation "
        "over runs.",
        f"Nothing is learnable in the activations of {', '.join(fixed)}." if fixed else "",
    ]
    figures = [page.figure(file_name("parameters", name)) for name, arm in found if arm[0].resets]
    strips = [page.figure(file_name("strip", name)) for name, arm in found if arm[0].resets]
    shown = "\n\n".join(x for x in (*figures, *strips) if x)
    parts = ["## Learned activations", " ".join(x for x in said if x), table(header, rows)]
    parts += [_table(page.of("activations"))] if learnable else []
    parts += [details("How parameters and curves moved along training", shown)] if shown else []
    return "\n\n".join(part for part in parts if part)


def _edges(page: Page) -> str:
    found = [(name, arm) for name, arm in by_arm(page.runs) if arm[0].edges]
    if not found:
        return ""
    header = ("variant", "", *MEASURES)
    factors = {"dimension": 1.0}
    rows = [
        (f"`{name}`" if kind == KINDS[0] else "", kind,
         *(_cell(arm, f"edges {measure}", 2 if measure in factors else 1, kind, factors.get(measure, 100))
           for measure in MEASURES))
        for name, arm in found for kind in KINDS
    ]  # fmt: skip
    meanings = "; ".join(f"*{name}*: {text}" for name, text in MEASURES.items())
    bounds = ", ".join(f"{max(x.bound for x in arm[0].edges)} for `{name}`" for name, arm in found)
    parts = [
        "## KAN edges",
        "Every edge on the inputs that occur, beside two controls: the same model before its training, and "
        "functions of the same basis with independent coefficients of the same spread, on the same inputs.",
        table(header, rows),
        f"In percent, except for the dimension; means over layers, mean and standard deviation over runs. "
        f"{meanings}.",
        page.figure("components"),
        "> [!NOTE]\n> A sum of K functions spans at most K dimensions, whatever its coefficients: at most "
        f"{bounds}. That so many components explain all of the variance is algebra and not learning; what is "
        "learned is how far the trained line lies from the two others.",
        _table(page.of("edges")),
        _forms(found),
        *(page.figure(file_name("atlas", name)) for name, _ in found),
    ]
    strips = "\n\n".join(x for name, _ in found if (x := page.figure(file_name("strip", name))))
    parts += [details("The strongest edges along training", strips)] if strips else []
    return "\n\n".join(part for part in parts if part)


def _forms(found: Sequence[tuple[str, Sequence[RunInspection]]]) -> str:
    names = [*(form.name for form in FORMS), NO_FORM]
    rows = [
        (f"`{name}`" if kind == KINDS[0] else "", kind,
         *(f"{100 * np.mean([x.forms[kind][form] for run in arm for x in run.edges]):.1f}" for form in names))
        for name, arm in found for kind in KINDS
    ]  # fmt: skip
    formulas = "; ".join(f"*{form.name}* {form.formula}" for form in FORMS)
    return (
        f"Closed forms: share of the edges' variance, in percent, in edges that a form fits with R² of "
        f"{GOOD} or more on their inputs, by the form with the fewest parameters that does. What random "
        f"functions get is what the library names by chance. {formulas}.\n\n"
        + table(("variant", "", *names), rows)
    )


def _pruning(page: Page) -> str:
    found = [(name, arm) for name, arm in by_arm(page.runs) if arm[0].pruning]
    if not found:
        return ""
    ways = ("edges by activity", "edges by random", "neurons by activity")
    header = ("variant", "FFN parameters", *(f"{way}: half" for way in ways), *(f"{w}: free" for w in ways))
    rows = [
        (f"`{name}`", f"{arm[0].ffn_parameters:,}", *(_cell(arm, f"pruning {way}, half", 3) for way in ways),
         *(_cell(arm, f"pruning {way}, removable", 0, factor=100) for way in ways))
        for name, arm in found
    ]  # fmt: skip
    saved = sum(bool(run.pruned_model) for run in page.runs)
    where = (
        f" {saved} pruned models are saved, each without the edges that are free, as "
        f"`{next(run.pruned_model for run in page.runs if run.pruned_model)}` in the folder of its run; "
        "`from_pretrained` loads them, and `removed.json` says what was removed."
        if saved
        else ""
    )
    return "\n\n".join(
        x
        for x in (
            "## Pruning",
            "Is it special to KANs that edges can be removed? An edge is set to zero and nothing is trained "
            "afterwards; a weight of a linear layer is an edge, too, a straight line. *half*: nats by which "
            "the loss rises without half of every layer's, the least active first or any. *free*: the "
            f"percent of them that go before the loss has risen by {TOLERANCE} nats.{where}",
            table(header, rows),
            page.figure("pruning"),
            _pairs(found),
            _table(page.of("pruning")),
        )
        if x
    )


def _pairs(found: Sequence[tuple[str, Sequence[RunInspection]]]) -> str:
    """What the minimal pairs can tell: of models at chance before anything is removed, nothing."""
    right = [curve.accuracy[0] for _, arm in found for run in arm for curve in run.pruning if curve.accuracy]
    if not right:
        return "No minimal pairs were scored."
    low, high = min(right), max(right)
    at_chance = abs(np.mean(right) - 50) <= 2 * max(np.std(right), 1e-9)
    told = f"Before anything is removed, {low:.0f} to {high:.0f}% of the minimal pairs are right"
    return f"{told}, which is chance: what becomes of that says nothing." if at_chance else f"{told}."


def _stability(page: Page) -> str:
    columns = {
        "spread of gradients": ("stability gradient_spread", 4, 1),
        "largest / median": ("stability largest_gradient", 2, 1),
        "spikes per 1,000 lines": ("stability loss_spikes", 1, 1),
        "effective rank": ("layer effective_rank", 1, 1),
        "dead channels (%)": ("layer dead", 1, 100),
    }
    header = ("variant", *columns)
    rows = [
        (f"`{name}`", *(_cell(arm, x, digits, factor=factor) for x, digits, factor in columns.values()))
        for name, arm in by_arm(page.runs)
    ]
    return "\n\n".join(
        x
        for x in (
            "## Stability",
            "How steady the training was. *spread of gradients*: standard deviation of what the logarithm "
            "(base 10) of the gradient's norm changes by between logged lines, over the root of two, so that "
            "a slow fall does not count; the source study's Figure 2 shows the norms of KANs to vary more, "
            "without a number. *spikes*: logged losses above the median of those around them by five times "
            "what is typical. *effective rank*: exp of the entropy of the singular values of an FFN's output "
            "(Roy and Vetterli 2007), mean over layers, after training.",
            table(header, rows),
            page.figure("stability"),
            _table(page.of("stability")),
        )
        if x
    )


def _table(findings: Sequence[Finding]) -> str:
    rows = [
        (name_of(x, findings), x.name, x.control, signed(x.estimate, enough_digits(x, 4)), written(x),
         p_value(x.p), x.verdict, f"{x.repeats} of {x.runs}")
        for x in findings
    ]  # fmt: skip
    header = ("variant", "what", "against", "difference", "interval", "p (Holm)", "verdict", "same sign")
    return table(header, rows) if rows else ""


def _across(page: Page) -> str:
    if not page.findings:
        return ""
    shown = [x for x in page.findings if x.verdict == DIFFERS]
    whole = [x for x in shown if x.repeats == x.runs]
    equal = sum(x.verdict == EQUAL for x in page.findings)
    text = (
        f"{len(shown)} of {len(page.findings)} findings differ from their control; {len(whole)} of these "
        f"have the same sign in every run. {equal} are equal in every run. What is not shown may be there, "
        "and smaller than these runs can tell."
    )
    header = ("question", "findings", "differ", "with one sign in every run", "equal")
    rows = []
    for part in dict.fromkeys(x.question for x in page.findings):
        own = page.of(part)
        differ = [x for x in own if x.verdict == DIFFERS]
        counts = (
            len(own),
            len(differ),
            sum(x.repeats == x.runs for x in differ),
            sum(x.verdict == EQUAL for x in own),
        )
        rows.append((part, *map(str, counts)))
    return f"## Across seeds\n\n{text}\n\n{table(header, rows)}"


def _methods(page: Page) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in page.versions.items())
    notes = "".join(f"\n- {note}" for note in page.notes)
    return (
        "## Methods\n\n"
        "Activity of an edge: standard deviation of what it gives over the tokens, from the covariance of "
        "its input's basis functions, so that no edge is sampled. Nonlinearity: one minus the squared "
        "correlation with its input. Components: of the edges of a layer as curves without their means, "
        "at 128 quantiles of all inputs of the layer; dimension is the participation ratio. The "
        "untrained model has the weights that the run's seed gave it. Differences to it are taken run by "
        "run, as a paired t-test; between variants by Welch's; p-values are corrected for all findings by "
        "Holm, intervals by Bonferroni.\n\n"
        f"{page.cost} {versions}.{notes}"
    )
