"""The frame of the HTML report: its head and its style."""

from string import Template

PAGE = Template(
    """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>$title</title>
<style>
:root {
  color-scheme: light dark;
  --text: #1d2126; --soft: #59626c; --back: #ffffff; --raised: #f5f6f8; --line: #d8dce1;
  --link: #005a8f; --warning: #b04a00; --note: #00639c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #dfe3e8; --soft: #9aa4af; --back: #15181c; --raised: #1e2328; --line: #363d45;
    --link: #6cb8ec; --warning: #f0a04b; --note: #6cb8ec;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body {
  margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 80rem;
  color: var(--text); background: var(--back);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif;
}
p, ul, ol, .alert { max-width: 56rem; }
h1 + p, h2 + p { max-width: none; }
p:has(> .figure) { display: inline-block; max-width: 100%; margin: 0 0.5rem 0 0; vertical-align: top; }
/* The verdicts and their plot: beside each other where there is room, else the plot first. */
.beside { display: flex; flex-flow: row nowrap; align-items: flex-start; gap: 1.25rem; }
.beside > div { flex: 0 1 auto; min-width: 0; }
.beside > p:has(> .figure) { flex: 1 1 38rem; min-width: 30rem; margin: 0; }
.beside .figure { margin-top: 0.5rem; }
@media (max-width: 68rem) {
  .beside { flex-flow: column-reverse; gap: 0; }
  .beside > p:has(> .figure) { flex: none; min-width: 0; }
}
h1, h2, h3 { line-height: 1.25; overflow-wrap: anywhere; }
h1 { margin: 0 0 0.75rem; font-size: 1.6rem; }
h1 + p { font-size: 1.075rem; }
h2 { margin: 2.75rem 0 0.75rem; padding-bottom: 0.3rem; font-size: 1.3rem; }
h2 { border-bottom: 1px solid var(--line); }
h3 { margin: 2rem 0 0.5rem; font-size: 1.08rem; }
a { color: var(--link); }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; }
code { padding: 0.1em 0.3em; border-radius: 4px; background: var(--raised); font-size: 0.9em; }
p code, li code { overflow-wrap: anywhere; }
pre { padding: 0.75rem 1rem; overflow-x: auto; border-radius: 6px; background: var(--raised); }
pre code { padding: 0; }
nav.contents { columns: 4 13rem; column-gap: 1.5rem; margin: 1.5rem 0; padding: 0.7rem 1rem; }
nav.contents { border-radius: 6px; background: var(--raised); }
nav.contents::before { content: "Contents"; display: block; column-span: all; font-weight: 600; }
nav.contents a { display: block; padding: 0.2rem 0; break-inside: avoid; overflow-wrap: anywhere; }
nav.contents a, .to-contents { text-decoration: none; }
nav.contents a:hover, .to-contents:hover { text-decoration: underline; }
.to-contents { position: fixed; right: 0.75rem; bottom: 0.75rem; padding: 0.35rem 0.8rem; }
.to-contents { border: 1px solid var(--line); border-radius: 1rem; background: var(--raised); }
.to-contents { font-size: 0.85rem; }
.table { margin: 1rem 0; overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.9rem; line-height: 1.4; font-variant-numeric: tabular-nums; }
th, td { padding: 0.35rem 0.75rem 0.35rem 0; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid var(--line); vertical-align: bottom; }
td { border-bottom: 1px solid var(--line); }
.whole, td code, th code { white-space: nowrap; }
td code, th code { padding: 0; background: none; font-size: 0.95em; }
td.long { min-width: 11rem; }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--back); }
.alert {
  margin: 1rem 0; padding: 0.6rem 1rem; border-left: 4px solid var(--note);
  border-radius: 0 6px 6px 0; background: var(--raised);
}
.alert.warning, .alert.caution { border-color: var(--warning); }
.alert > :last-child { margin-bottom: 0; }
.alert ul { margin: 0.3rem 0 0; padding-left: 1.2rem; }
.alert p { margin: 0.3rem 0; }
.alert-title { color: var(--note); font-weight: 600; }
.warning > .alert-title, .caution > .alert-title { color: var(--warning); }
blockquote { margin: 1rem 0; padding: 0 1rem; border-left: 4px solid var(--line); color: var(--soft); }
blockquote.alert { color: inherit; }
.figure { display: block; max-width: 100%; margin: 1.25rem 0; overflow-x: auto; }
/* On a narrow screen figures scroll rather than shrink until nobody can read them. */
.figure img { display: block; max-width: max(100%, 30rem); height: auto; }
.figure img { border-radius: 6px; background: #fff; }
details { margin: 0.6rem 0; }
summary { padding: 0.3rem 0; color: var(--link); cursor: pointer; }
@media (max-width: 40rem) {
  body { padding-top: 1rem; font-size: 0.97rem; }
  h1 { font-size: 1.35rem; }
  h1 + p { font-size: 1rem; }
  nav.contents { columns: 2 9rem; column-gap: 1rem; font-size: 0.93rem; }
  nav.contents a { padding: 0.35rem 0; }
  table { font-size: 0.82rem; }
  th, td { padding-right: 0.7rem; }
}
@media print {
  :root { --text: #000; --back: #fff; --raised: #f5f6f8; --line: #bbb; --link: #000; --soft: #333; }
  body { max-width: none; padding: 0; font-size: 9.5pt; }
  .to-contents { display: none; }
  .table, .figure, pre { overflow: visible; }
  table { font-size: 7.5pt; }
  td.long { min-width: 0; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  .figure img { max-width: 100%; }
  .figure, .alert, tr { break-inside: avoid; }
  h1, h2, h3 { break-after: avoid; }
  details::details-content { content-visibility: visible; block-size: auto; }
}
</style>
</head>
<body>
<main>
$body</main>
</body>
</html>
"""
)
