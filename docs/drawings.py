"""Draw the figures of ``docs/architecture.md``: ``python docs/drawings.py``, from any folder.

The curves are computed from the registry. Text sizes are those of a page 390 pixels wide. Every drawing holds
its words in its description too, which readers of the file hear and a test compares.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from torch import Tensor, nn

from ffn_variants import FFN_VARIANTS, build_ffn
from report.figures.style import BLUE, DASHES, GREY, PALETTE, POINTS_PER_INCH, STYLE, VERMILION

FOLDER = Path(__file__).parent / "figures"
WIDTH = 390  # points: a pixel each
GREEN, PURPLE = PALETTE[2:4]
SIZE, SMALL = 9.5, 8.5  # points

X = torch.linspace(-3, 3, 61)
FACTORS = torch.tensor([1, 0.5, 2])
"""What the learned parameters of the three curves of a panel are multiplied by, where they start alike."""
LEFT_OUT = ("thesis-kan",)  # kan's function
OF_ALL_CHANNELS = ("polynorm", "gaussian-topk")
OTHERS = torch.special.ndtri((torch.arange(99) + 0.5) / 99)
"""What the other channels of such a function hold: the quantiles of a normal variable."""


def block() -> Figure:
    """A transformer block with the place of the swap, and a function of every variant."""
    names = [name for name in FFN_VARIANTS if name not in LEFT_OUT]
    lines = -(-len(names) // 4)
    figure, axes = _canvas(height := 276 + 68 * lines)
    _draw_block(axes, height)
    for place, name in enumerate(names):
        line, column = divmod(place, 4)
        bottom = height - 276 - 68 * (line + 1) + 12
        panel = figure.add_axes(
            ((10 + 95 * column) / WIDTH, bottom / height, 84 / WIDTH, 40 / height), facecolor="none"
        )
        panel.axhline(0, color="#bbbbbb", linewidth=0.7)
        panel.axvline(0, color="#bbbbbb", linewidth=0.7)
        curves = three_curves(name)
        for curve, colour, dashes in zip(curves, (VERMILION, BLUE, GREEN), DASHES, strict=False):
            panel.plot(X.tolist(), curve, color=colour, linestyle=dashes, linewidth=1.5)
        panel.set_title(name, fontsize=SMALL, pad=2)
        panel.set_axis_off()
    return figure


def three_curves(name: str) -> list[list[float]]:
    """Return what a variant does to one number, in [-3, 3]: (1 or 3, len(X)) values from -1 to 1, rounded.

    Of an activation three channels; of a gated block three values of what is gated; of a KAN layer three
    edges with coefficients drawn at random.
    """
    torch.manual_seed(1)
    function = _function_of(name)
    with torch.no_grad():
        values = function(X.unsqueeze(1).expand(-1, 3).contiguous()).t()
    values = values / max(values.abs().max(), torch.finfo(values.dtype).tiny)
    rounded = [[round(value, 3) for value in curve] for curve in values.tolist()]
    return rounded if rounded[1:] != rounded[:1] * 2 else rounded[:1]


def _function_of(name: str) -> Callable[[Tensor], Tensor]:
    """A function from (N, 3) equal columns to (N, 3) values: a curve in each column."""
    spec = FFN_VARIANTS[name]
    if name in OF_ALL_CHANNELS:
        module = spec.build(100, **spec.resolve(None))
        return lambda x: module(torch.cat([x[:, :1], OTHERS.expand(len(x), -1)], 1))[:, :1]
    if spec.kind == "activation":
        return _spread(spec.build(3, **spec.resolve(None)))
    ffn = build_ffn(name, 1, 3)
    if hasattr(ffn, "gated"):  # GatedFFN
        return lambda x: ffn.gated(torch.cat([x, FACTORS.expand_as(x)], 1))  # type: ignore[operator]
    if hasattr(ffn, "input_splines"):  # spline-kan has no inner width
        return build_ffn(name, 3, 3).input_splines  # type: ignore[return-value]
    if hasattr(ffn, "hidden_rational"):  # gr-kan
        return _spread(build_ffn(name, 3, 3, groups=3).hidden_rational)  # type: ignore[arg-type]
    if not hasattr(ffn, "layers"):
        return lambda x: ffn(x[:, :1])
    layer: Any = ffn.layers[0]  # type: ignore[index]
    with torch.no_grad():
        for label, parameter in layer.named_parameters():
            if not label.endswith(("knots", "scale")):  # where bumps begin and end, and how wide waves are
                parameter.normal_()
    if hasattr(layer, "_normalized"):  # rbf-kan's edges are functions of the normalised input
        layer._normalized = lambda x: x
    return lambda x: layer(x[:, :1])


def _spread(module: nn.Module) -> nn.Module:
    """Give three channels that start alike three values of what they learn."""
    with torch.no_grad():
        for parameter in module.parameters():
            rows = parameter if parameter.ndim > 1 else parameter.unsqueeze(1)
            if len(rows) == 3 and bool((rows == rows[0]).all()):
                rows *= FACTORS.unsqueeze(1)
    return module


def _draw_block(axes: Axes, height: int) -> None:
    top, middle = height - 22, 80
    _write(axes, middle, top + 8, "a layer of GPT-Neo", centred=True, colour=GREY)
    boxes = [("norm", 210), ("attention", 176), ("norm", 108), ("FFN", 74)]
    _arrow(axes, (middle, top - 246), (middle, top - 4))
    for text, below in boxes:
        place = text == "FFN"
        _box(axes, middle - 48, top - below - 12, 96, 24, text, VERMILION if place else GREY, bold=place)
    for plus, start in ((142, 232), (38, 130)):
        _arrow(axes, (16, top - start), (16, top - plus), (middle - 8, top - plus))
        axes.plot([16, middle], [top - start] * 2, color=GREY, linewidth=1)
        _box(axes, middle - 8, top - plus - 8, 16, 16, "+", GREY)
    left = 176
    axes.plot([middle + 50, left - 6], [top - 62, top - 2], color=VERMILION, linewidth=0.8, linestyle=":")
    axes.plot([middle + 50, left - 6], [top - 86, top - 238], color=VERMILION, linewidth=0.8, linestyle=":")
    _write(axes, left, top - 6, "an activation stands between", bold=True)
    _write(axes, left, top - 19, "the two stock linear layers:")
    for step, (text, colour) in enumerate((("linear", GREY), ("activation", VERMILION), ("linear", GREY))):
        _box(axes, left + (0, 58, 142)[step], top - 54, (48, 74, 48)[step], 24, text, colour, bold=step == 1)
    for start in (48, 132):
        _arrow(axes, (left + start, top - 42), (left + start + 10, top - 42))
    _write(axes, left, top - 80, "a block is the whole FFN:", bold=True)
    _box(axes, left, top - 115, 190, 24, "KAN, gated, expert layers", VERMILION, bold=True)
    for line, text in enumerate(
        (
            "Everything else stays stock. At one seed",
            "all other weights are equal to the bit.",
            "",
            "Below: what each variant does to a number",
            "from -3 to 3. Where it learns one factor,",
            "dashes and dots show half and twice of it;",
            "for splines and other bases, three curves",
            "with random coefficients. Where it sees all",
            "channels, the others are normal.",
        )
    ):
        _write(axes, left, top - 138 - 13 * line, text, small=True)


STUDY_FOLDER = (
    ("study.yaml", "what was asked for", "submit"),
    ("gpt_neo/kan/seed3-1a2b3c4d/", "family / variant / seed, hash", ""),
    ("  config.yaml", "resolved config, itself a valid input", "train"),
    ("  provenance.json", "code, versions, device, data, results", "train"),
    ("  metrics.jsonl", "a line for each logged step", "train"),
    ("  checkpoints/", "weights, optimizer, step", "train"),
    ("  logs/", "of a tracker, where one is used", "train"),
    ("  variant.py", "of a variant in a file of your own", "train"),
    ("  variant-name.txt", "what Python calls the variant", "train"),
    ("  model/", "Hugging Face model, tokenizer, card", "train"),
    ("  COMPLETED", "written last: results, the model's checksums", "train"),
    ("  FAILED", "in its place where the loss diverged", "train"),
    ("  ARCHIVED", "in place of a model that was left out", "submit"),
    ("  eval/rows.parquet", "every score", "eval"),
    ("  eval/rows.csv", "the same, to open by hand", "eval"),
    ("  eval/items/", "how the run did on each item", "eval"),
    ("  eval/done.json", "tasks, protocols, weights", "eval"),
    ("  eval/baselines.json", "what constant answers score", "eval"),
    ("  eval/classifiers/", "fine-tuned classifiers, kept", "look"),
    ("  eval/explanations/", "what speaks for the labels of texts", "look"),
    ("cells/", "where every cell stands", "submit"),
    ("jobs/", "what jobs run, and their logs", "submit"),
    ("code/", "copies of the code that jobs run", "submit"),
    ("tuning.json", "what was tuned, and chosen", "submit"),
    ("inspection/", "what FFNs learned: .html, .md, figures", "look"),
    ("report/", "report.md, .html, .json, figures, tables", "report"),
)
WRITERS = {
    "submit": ("ffn-ablations study run", VERMILION),
    "train": ("pretrain/train.py", BLUE),
    "eval": ("ffn-ablations eval", GREEN),
    "look": ("ffn-ablations explain, inspect", GREY),
    "report": ("ffn-ablations report", PURPLE),
}


def run_folder() -> Figure:
    """The folder of a study with a run in it, and who writes what."""
    step = 16
    figure, axes = _canvas(height := 64 + step * (len(STUDY_FOLDER) + 2))
    _write(axes, 8, height - 14, "runs/<study>/", bold=True)
    for line, (name, what, writer) in enumerate(STUDY_FOLDER):
        y = height - 14 - step * (line + 1)
        if writer:
            _chip(axes, 8, y, writer)
        _write(axes, 64 if name.startswith("  ") else 54, y, name.strip(), bold=not writer)
        _write(axes, 194 if writer else 226, y, what, small=True)
    y = height - 22 - step * (len(STUDY_FOLDER) + 1)
    for line, keys in enumerate((("submit", "train"), ("eval", "report"), ("look",))):
        for column, key in enumerate(keys):
            _chip(axes, 8 + 190 * column, y - 16 * line, key)
            _write(axes, 54 + 190 * column, y - 16 * line, WRITERS[key][0], small=True)
    return figure


def _chip(axes: Axes, x: float, y: float, writer: str) -> None:
    _box(axes, x, y - 6, 40, 12, "", WRITERS[writer][1])
    _write(axes, x + 20, y, writer, centred=True, small=True)


DRAWINGS = {"block": block, "run-folder": run_folder}


def words(figure: Figure) -> str:
    """Return everything that a drawing says, in the order of its drawing."""
    texts = [text.get_text() for axes in figure.axes for text in (*axes.texts, axes.title)]
    return "; ".join(text for text in texts if text)


def draw(name: str) -> tuple[Figure, str]:
    """Return a drawing and its SVG."""
    with matplotlib.rc_context({**STYLE, "font.size": SIZE}):
        figure = DRAWINGS[name]()
        buffer = io.StringIO()
        about = {"Date": None, "Creator": None, "Description": words(figure)}
        figure.savefig(buffer, format="svg", metadata=about)
    return figure, buffer.getvalue()


def _canvas(height: int) -> tuple[Figure, Axes]:
    """A white page of ``WIDTH`` x ``height`` points, with axes in points from its lower left corner."""
    figure = Figure(figsize=(WIDTH / POINTS_PER_INCH, height / POINTS_PER_INCH), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(0, height))
    axes.set_axis_off()
    return figure, axes


def _box(
    axes: Axes, x: float, y: float, width: float, height: float, text: str, colour: str, *, bold: bool = False
) -> None:
    shape, look = (
        "round,pad=0,rounding_size=4",
        {"edgecolor": colour, "facecolor": "white" if colour == GREY else _pale(colour)},
    )
    axes.add_patch(FancyBboxPatch((x, y), width, height, shape, linewidth=1.2, zorder=2, **look))
    if text:
        _write(axes, x + width / 2, y + height / 2, text, centred=True, bold=bold)


def _pale(colour: str) -> str:
    red, green, blue = (round(255 - 0.14 * (255 - int(colour[i : i + 2], 16))) for i in (1, 3, 5))
    return f"#{red:02x}{green:02x}{blue:02x}"


def _write(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    *,
    centred: bool = False,
    bold: bool = False,
    small: bool = False,
    colour: str = "#000000",
) -> None:
    if not text:
        return
    axes.text(
        x,
        y,
        text,
        ha="center" if centred else "left",
        va="center",
        fontsize=SMALL if small else SIZE,
        fontweight="bold" if bold else "normal",
        color=colour,
        zorder=3,
    )


def _arrow(axes: Axes, *points: tuple[float, float]) -> None:
    (*_, before, end) = points
    axes.plot(*zip(*points[:-1], strict=True), color=GREY, linewidth=1, zorder=1)
    axes.annotate("", end, before, arrowprops={"arrowstyle": "->", "color": GREY, "linewidth": 1}, zorder=1)


def main() -> None:
    """Write every drawing."""
    FOLDER.mkdir(exist_ok=True)
    for name in DRAWINGS:
        _, svg = draw(name)
        (FOLDER / f"{name}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
