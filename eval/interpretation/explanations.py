"""What segments contribute to a prediction, as a page that needs nothing beside itself and as JSON.

Everything here is made of plain data; ``eval.explain`` gets it from a model.

Shapes: n examples, m segments of one, C labels.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from string import Template

import numpy as np

from eval.report.document.page import PAGE
from eval.zero_shot.task import evenly_spaced

# Blue for, orange against: told apart by those who confuse red and green. Text stays readable on either.
_FOR, _AGAINST = (0, 114, 178), (230, 120, 0)
_STRONGEST = 0.6
_NUM_LISTED = 5

_STYLE = """<style>
.document { max-width: 52rem; margin: 0.5rem 0; line-height: 1.9; }
.document { white-space: pre-wrap; overflow-wrap: anywhere; }
.document span { padding: 0.15em 0; border-radius: 3px; }
.example { padding: 0.5rem 0 1rem; border-bottom: 1px solid var(--line); }
.example h2 { margin: 1rem 0 0.3rem; padding: 0; border: 0; font-size: 1.1rem; }
.example p { margin: 0.2rem 0; }
.right, .wrong { padding: 0.05em 0.5em; border-radius: 1em; border: 1px solid; font-size: 0.85em; }
.right { color: var(--note); } .wrong { color: var(--warning); }
.legend { display: flex; flex-wrap: wrap; gap: 0.3rem 0.8rem; align-items: center; font-size: 0.9rem; }
.bar { display: inline-block; width: 10rem; height: 0.9rem; }
.bar { border: 1px solid var(--line); border-radius: 3px; }
td.text { min-width: 12rem; overflow-wrap: anywhere; }
</style>
"""
_BODY = Template("""$style<h1>$title</h1>
<p>$intro</p>
<p class="legend"><span>speaks against $low</span><span class="bar" style="background:$gradient"></span>
<span>speaks for $high</span></p>
$examples""")


@dataclass(frozen=True)
class Explained:
    """One example, its prediction, and what its segments say of it.

    Attributes:
        idx: Its name in its file.
        text: All of it.
        spans: (m, 2) first character of each segment, and the one behind its last; they may overlap.
        scores: (m, C) what each segment contributes to each label.
        probabilities: (C,).
        predicted: The label whose contributions are shown, the likeliest.
        predictions: What is predicted: this label, or any number of labels where several may be right.
        labels: What is right.
    """

    idx: str
    text: str
    spans: np.ndarray
    scores: np.ndarray
    probabilities: np.ndarray
    predicted: int
    predictions: tuple[int, ...]
    labels: tuple[int, ...]

    @property
    def is_right(self) -> bool:
        """Whether what is predicted is what is right."""
        return self.predictions == self.labels

    @property
    def contributions(self) -> np.ndarray:
        """(m,) to the label that is shown."""
        return self.scores[:, self.predicted]


def choose_examples(is_right: np.ndarray, number: int) -> np.ndarray:
    """Choose examples to look at: half of them wrong where there are enough, each half evenly spaced.

    Args:
        is_right: (n,) whether each is classified correctly.
        number: How many; all if there are fewer.

    Returns:
        Their numbers, ascending.
    """
    right, wrong = np.flatnonzero(is_right).tolist(), np.flatnonzero(~is_right).tolist()
    num_wrong = min(len(wrong), max(number // 2, number - len(right)))
    return np.array(sorted(evenly_spaced(wrong, num_wrong) + evenly_spaced(right, number - num_wrong)), int)


def to_page(examples: Sequence[Explained], names: Sequence[str], title: str, intro: str) -> str:
    """Return a page of examples, their segments shaded by what they contribute.

    Args:
        examples: What to show, in this order.
        names: C names of labels.
        title: The heading.
        intro: What the page shows, in a sentence or two of plain text.
    """
    scale = max((float(np.abs(example.contributions).max()) for example in examples), default=0.0) or 1.0
    colours = ", ".join(_colour(step * scale, scale) for step in (-1, -0.5, 0, 0.5, 1))
    body = _BODY.substitute(
        style=_STYLE,
        title=html.escape(title),
        intro=html.escape(intro),
        low=f"{-scale:+.2f}",
        high=f"{scale:+.2f}",
        gradient=f"linear-gradient(to right, {colours})",
        examples="\n".join(_example(example, names, scale) for example in examples),
    )
    return PAGE.substitute(title=html.escape(title), body=body)


def _example(example: Explained, names: Sequence[str], scale: float) -> str:
    verdict = "right" if example.is_right else "wrong"
    chance = f"{100 * example.probabilities[example.predicted]:.1f}%"
    about = (
        f"is {_listed(example.labels, names)}, predicted {_listed(example.predictions, names)}; "
        f"{names[example.predicted]} has probability {chance}"
    )
    return (
        f'<section class="example">\n<h2>{html.escape(example.idx)} '
        f'<span class="{verdict}">{verdict}</span></h2>\n<p>{html.escape(about)}</p>\n'
        f'<div class="document">{_shaded(example, scale)}</div>\n{_strongest(example, names)}</section>'
    )


def _listed(labels: Sequence[int], names: Sequence[str]) -> str:
    return ", ".join(names[label] for label in labels) or "none"


def _shaded(example: Explained, scale: float) -> str:
    """The text in pieces between which no segment begins or ends, each with the mean of its segments."""
    ends = sorted({0, len(example.text), *example.spans.flatten().tolist()})
    order = np.argsort(example.spans[:, 0], kind="stable")
    waiting, active, parts = list(order[::-1]), list[int](), list[str]()
    for start, stop in pairwise(ends):
        while waiting and example.spans[waiting[-1], 0] <= start:
            active.append(int(waiting.pop()))
        active = [number for number in active if example.spans[number, 1] > start]
        text = html.escape(example.text[start:stop])
        if not active:
            parts.append(text)
            continue
        scores = example.contributions[active]
        told = "; ".join(
            f"segment {number + 1}: {score:+.3f}" for number, score in zip(active, scores, strict=True)
        )
        colour = _colour(float(scores.mean()), scale)
        parts.append(f'<span style="background:{colour}" title="{told}">{text}</span>')
    return "".join(parts)


def _colour(score: float, scale: float) -> str:
    red, green, blue = _FOR if score > 0 else _AGAINST
    return f"rgba({red},{green},{blue},{_STRONGEST * min(1.0, abs(score) / scale):.3f})"


def _strongest(example: Explained, names: Sequence[str]) -> str:
    """A table of the segments that say most, for those who cannot hover."""
    order = np.argsort(-np.abs(example.contributions), kind="stable")[:_NUM_LISTED]
    rows = "".join(
        f"<tr><td>{number + 1}</td><td>{example.contributions[number]:+.3f}</td>"
        f'<td class="text">{html.escape(_shortened(example.text[slice(*example.spans[number])]))}</td></tr>\n'
        for number in order
    )
    heading = f"strongest {len(order)} of {len(example.spans)} segments for {names[example.predicted]}"
    return (
        f'<details><summary>{html.escape(heading)}</summary><div class="table"><table>\n'
        f"<tr><th>segment</th><th>score</th><th>text</th></tr>\n{rows}</table></div></details>\n"
    )


def _shortened(text: str, length: int = 120) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}\u2026"


def to_json(examples: Sequence[Explained], names: Sequence[str]) -> list[dict]:
    """Return the same as plain data: every segment with its characters and its score for every label."""
    return [
        {
            "idx": example.idx,
            "labels": [names[label] for label in example.labels],
            "predictions": [names[label] for label in example.predictions],
            "shown": names[example.predicted],
            "is_right": example.is_right,
            "probabilities": dict(zip(names, example.probabilities.tolist(), strict=True)),
            "segments": [
                {
                    "start": int(start),
                    "stop": int(stop),
                    "text": example.text[start:stop],
                    "scores": dict(zip(names, scores.tolist(), strict=True)),
                }
                for (start, stop), scores in zip(example.spans, example.scores, strict=True)
            ],
        }
        for example in examples
    ]
