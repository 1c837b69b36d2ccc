"""The frame of a study's page: its head and its style."""

from string import Template

FRAME = Template(
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
$refresh
<title>$title</title>
<style>
:root {
  color-scheme: light dark;
  --text: #1d2126; --soft: #59626c; --back: #ffffff; --raised: #eceff2; --line: #d8dce1; --link: #005a8f;
  --waiting: #e3e6ea; --queued: #c9dcec; --running: #8fc3ea; --done: #a9d8b8; --failed: #f0a08c;
  --missing: #f2d08a; --ink: #1d2126;
  --c0: #222222; --c1: #0072b2; --c2: #d55e00; --c3: #009e73; --c4: #b5518e; --c5: #b88a00; --c6: #3f8fc4;
  --c7: #7a5230; --c8: #6a51a3; --c9: #c0392b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #dfe3e8; --soft: #9aa4af; --back: #15181c; --raised: #1e2328; --line: #363d45; --link: #6cb8ec;
    --c0: #f0f0f0; --c1: #56b4e9; --c2: #ff9a4d; --c3: #3fd0a4; --c4: #e79ac8; --c5: #f0d24a; --c6: #9cc9ea;
    --c7: #c9a27c; --c8: #b7a5e0; --c9: #ff8a7a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.25rem 1rem 3rem; max-width: 80rem; color: var(--text); background: var(--back);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif;
}
h1 { margin: 0 0 0.5rem; font-size: 1.5rem; overflow-wrap: anywhere; }
h2 { margin: 2rem 0 0.5rem; padding-bottom: 0.2rem; font-size: 1.2rem; border-bottom: 1px solid var(--line); }
p { margin: 0.35rem 0; max-width: 60rem; overflow-wrap: anywhere; }
li { overflow-wrap: anywhere; margin: 0.3rem 0; }
a { color: var(--link); }
.soft { color: var(--soft); font-size: 0.9rem; }
.note { padding: 0.5rem 0.75rem; border-left: 4px solid var(--c2); background: var(--raised); }
code { font-family: ui-monospace, Menlo, Consolas, "Liberation Mono", monospace; font-size: 0.9em; }
.bar { display: flex; height: 0.9rem; margin: 0.5rem 0; border-radius: 0.45rem; overflow: hidden; }
.bar span { flex-basis: 0; min-width: 2px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; }
th, td { padding: 0.25rem 0.75rem 0.25rem 0; text-align: left; vertical-align: top; }
th { border-bottom: 1px solid var(--line); }
.squares { min-width: 5.5rem; line-height: 1.55; }
.cell {
  display: inline-block; width: 1.35em; margin: 0 2px 2px 0; border-radius: 3px; text-align: center;
  color: var(--ink); font: 0.85rem/1.35em ui-monospace, Menlo, Consolas, "Liberation Mono", monospace;
}
.waiting { background: var(--waiting); } .queued { background: var(--queued); }
.running { background: var(--running); } .done { background: var(--done); }
.diverged { background: var(--done); }
.failed { background: var(--failed); font-weight: bold; } .missing { background: var(--missing); }
.legend { display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; }
.legend span { overflow-wrap: anywhere; min-width: 0; }
.key { width: 28px; height: 10px; margin-right: 0.35rem; vertical-align: middle; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption { font-size: 0.9rem; overflow-wrap: anywhere; }
figure > svg { width: 100%; height: auto; } .inside { overflow: hidden; }
svg text { fill: var(--soft); font-size: 11px; }
.grid { stroke: var(--line); stroke-width: 1; }
.line { fill: none; stroke-width: 2; } .band { opacity: 0.16; stroke: none; } .dot { stroke: none; }
.line.c0 { stroke: var(--c0); } .band.c0, .dot.c0 { fill: var(--c0); }
.line.c1 { stroke: var(--c1); } .band.c1, .dot.c1 { fill: var(--c1); }
.line.c2 { stroke: var(--c2); } .band.c2, .dot.c2 { fill: var(--c2); }
.line.c3 { stroke: var(--c3); } .band.c3, .dot.c3 { fill: var(--c3); }
.line.c4 { stroke: var(--c4); } .band.c4, .dot.c4 { fill: var(--c4); }
.line.c5 { stroke: var(--c5); } .band.c5, .dot.c5 { fill: var(--c5); }
.line.c6 { stroke: var(--c6); } .band.c6, .dot.c6 { fill: var(--c6); }
.line.c7 { stroke: var(--c7); } .band.c7, .dot.c7 { fill: var(--c7); }
.line.c8 { stroke: var(--c8); } .band.c8, .dot.c8 { fill: var(--c8); }
.line.c9 { stroke: var(--c9); } .band.c9, .dot.c9 { fill: var(--c9); }
@media print {
  .cell { border: 1px solid var(--soft); } h2 { break-after: avoid; } figure { break-inside: avoid; }
}
</style>
</head>
<body>
$body
</body>
</html>
"""
)
