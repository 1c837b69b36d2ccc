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
from markdown_it.token import Token

STYLE_SHEET = Path(__file__).with_name("style.css")
FRAME = Template(Path(__file__).with_name("frame.html").read_text("utf-8"))
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
    for name, rule in RULES.items():
        parser.add_render_rule(name, rule)
    titled = ALERT.sub(lambda alert: f"> **{alert[1].capitalize()}**\n>", markdown)
    return parser.render(titled, {"images": images or {}})


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


def _cell_open(self: RendererHTML, tokens: Sequence[Token], place: int, *_: Any) -> str:
    # A sentence in a table of many columns would else stand in lines of one word each.
    is_long = max(map(len, re.split(r"<br ?/?>", tokens[place + 1].content))) > LONG_CELL
    return '<td class="long">' if is_long else "<td>"


RULES = {
    "text": _text,
    "image": _image,
    "html_block": _raw,
    "html_inline": _raw,
    "td_open": _cell_open,
    "table_open": lambda *_: (
        '<div class="table" tabindex="0"><table>\n'
    ),  # a box that scrolls, by keyboard too
    "table_close": lambda *_: "</table></div>\n",
}
"""How what is not written as the library writes it is written, by the kind of a token."""
