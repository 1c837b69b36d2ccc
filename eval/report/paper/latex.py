"""LaTeX that compiles whatever names a table has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%",
    "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''", "\N{MINUS SIGN}": "$-$", "±": r"$\pm$",
    "↑": r"$\uparrow$", "↓": r"$\downarrow$", "β": r"$\beta$", "\N{INFINITY}": r"$\infty$",
    "\n": " ", "\t": " ",
}  # fmt: skip
_ANY = re.compile("|".join(map(re.escape, _SPECIAL)))


def escape(text: str) -> str:
    r"""Write a text so that LaTeX prints it; what no font of pdfLaTeX has becomes a question mark."""
    escaped = _ANY.sub(lambda found: _SPECIAL[found[0]], text)
    return escaped.encode("latin-1", "replace").decode("latin-1")


def number(text: str) -> str:
    """Write a number, or an interval of two, with LaTeX's minus signs; any other text as it is."""
    if re.search(r"[A-Za-z]", text.replace("e+", "").replace("e-", "")):
        return escape(text)
    # A hyphen is a sign where no digit stands before it.
    return re.sub(r"(?<![\d.])-(?=[\d.])", "$-$", escape(text))


def booktabs(
    header: Sequence[str], rows: Iterable[Sequence[str]], caption: str, label: str, *, is_wide: bool
) -> str:
    r"""Write a floating table in the style of booktabs.

    Args:
        header: Escaped cells; the first column is left-aligned, the others are centred.
        rows: Escaped cells; an empty row draws a thin line.
        caption: Escaped.
        label: Of ``\ref``, without a prefix.
        is_wide: Whether it spans both columns of a page of two.
    """
    star = "*" if is_wide else ""
    lines = [r"\addlinespace" if not row else " & ".join(row) + r" \\" for row in rows]
    return "\n".join(
        [
            rf"\begin{{table{star}}}[t]",
            r"\centering\small",
            rf"\caption{{{caption}}}",
            rf"\label{{tab:{label}}}",
            r"\setlength{\tabcolsep}{4pt}",
            rf"\begin{{tabular}}{{@{{}}l{'c' * (len(header) - 1)}@{{}}}}",
            r"\toprule",
            " & ".join(header) + r" \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            rf"\end{{table{star}}}",
            "",
        ]
    )
