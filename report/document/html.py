"""Markdown as one HTML file that needs nothing beside itself: no network, no script, no second file."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token

STYLE_SHEET = Path(__file__).with_name("style.css")
FRAME = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>$title</title>
<style>
$style</style>
</head>
<body>
<main>
$body</main>
</body>
</html>
""")
# Raw HTML that a page uses; anything else, such as a variant named <b>, is shown as it is written.
RAW_TAG = re.compile(
    r"(</?(?:details|summary|code|sub|sup)>|<details open>|<br ?/?>|</mark>"
    r'|<mark class="(?:favour|against)" style="--strength:[\d.]+"(?: title="[^"<>&]*")?>)'
)
WHOLE = re.compile(r"\[[+-]?[\d.]+, [+-]?[\d.]+\]|\d+ / \d+|[+-]?[\d.]+ ± [\d.]+")
LONG_CELL = 30  # characters in a line
# GitHub's box around a quote; the style sheet makes one of a quote that starts with a bold line.
ALERT = re.compile(r"^> \[!(NOTE|TIP|IMPORTANT|WARNING|CAUTION)\]$", re.MULTILINE)


def to_html(markdown: str, title: str, images: Mapping[str, str]) -> str:
    """Convert Markdown to a self-contained page.

    Args:
        markdown: GitHub's: tables, alerts (``> [!WARNING]``), ``<details>`` and ``markdown.shaded`` are kept.
        title: What the browser's tab says.
        images: Link target (``figures/forest-blimp.svg``) to the text of the SVG, which the page embeds; an
            image with another target is replaced by its alt text.

    Returns:
        The page, the same for the same input.
    """
    body = to_fragment(markdown, images)
    return FRAME.substitute(title=html.escape(title), style=STYLE_SHEET.read_text("utf-8"), body=body)


def to_fragment(markdown: str, images: Mapping[str, str] | None = None) -> str:
    """Convert a part of a page, without a frame around it; the arguments are those of ``to_html``."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    parser.core.ruler.push("beside", _put_beside)
    for name, rule in (
        ("text", _text),
        ("image", _image),
        ("html_block", _raw),
        ("frame", _frame),
        ("html_inline", _raw),
        ("td_open", _cell_open),
        ("table_open", _table_open),
        ("table_close", _table_close),
    ):
        parser.add_render_rule(name, rule)
    titled = ALERT.sub(lambda alert: f"> **{alert[1].capitalize()}**\n>", markdown)
    return parser.render(titled, {"images": images or {}})


def _put_beside(state: StateCore) -> None:
    """Put the first figure beside the text and table before it, from the page's title on."""
    tokens = state.tokens
    ends = [place for place, token in enumerate(tokens) if token.type == "heading_open" and token.tag == "h2"]
    figures = [
        place
        for place, token in enumerate(tokens[: ends[0] if ends else None])
        if token.type == "inline" and [child.type for child in token.children or []] == ["image"]
    ]
    tables = [place for place, token in enumerate(tokens) if token.type == "table_open"]
    if not figures or not tables or tables[0] > figures[0]:
        return
    start, figure = tables[0], figures[0] - 1
    parts = ((start, '<div class="beside"><div>\n'), (figure, "</div>\n"), (figures[0] + 2, "</div>\n"))
    for place, text in reversed(parts):
        tokens.insert(place, Token("frame", "", 0, content=text, block=True))


def _frame(self: RendererHTML, tokens: Sequence[Token], place: int, *_: Any) -> str:
    return tokens[place].content


def _text(self: RendererHTML, tokens: Sequence[Token], place: int, *_: Any) -> str:
    """Keep an interval, the sizes of two arms, and a mean with its spread on one line."""
    return WHOLE.sub(r'<span class="whole">\g<0></span>', html.escape(tokens[place].content))


def _raw(self: RendererHTML, tokens: Sequence[Token], place: int, *_: Any) -> str:
    parts = RAW_TAG.split(tokens[place].content)
    return "".join(
        part if i % 2 else html.escape(html.unescape(part), quote=False) for i, part in enumerate(parts)
    )


def _image(
    self: RendererHTML, tokens: Sequence[Token], place: int, options: Any, env: MutableMapping[str, Any]
) -> str:
    token = tokens[place]
    alt = html.escape(self.renderInlineAsText(token.children or [], options, env))
    svg = env["images"].get(str(token.attrs["src"]))
    if svg is None:
        return f"<em>{alt}</em>"
    data = base64.b64encode(svg.encode()).decode()
    return f'<span class="figure"><img alt="{alt}" src="data:image/svg+xml;base64,{data}"></span>'


def _table_open(*_: Any) -> str:
    # Reachable by keyboard, as a box that scrolls must be.
    return '<div class="table" tabindex="0"><table>\n'


def _cell_open(self: RendererHTML, tokens: Sequence[Token], place: int, *_: Any) -> str:
    # A sentence in a table of many columns would else stand in lines of one word each.
    is_long = max(map(len, re.split(r"<br ?/?>", tokens[place + 1].content))) > LONG_CELL
    return '<td class="long">' if is_long else "<td>"


def _table_close(*_: Any) -> str:
    return "</table></div>\n"
