"""One page of HTML: no script, no address that leads out of it. Every text goes through `escape`."""

import html

STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; color: #222; background: #fff; }
main { max-width: 1200px; margin: 0 auto; padding: 1rem 1.25rem 3rem; }
h1 { font-size: 1.6rem; margin: .4rem 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2rem 0 .6rem; padding-top: .6rem; border-top: 1px solid #ddd; }
h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; }
p { max-width: 75ch; margin: .4rem 0 .8rem; overflow-wrap: anywhere; }
.lead { font-size: 1.05rem; }
nav a { margin-right: 1rem; white-space: nowrap; }
a { color: #005a92; }
.pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr)); gap: 1rem 1.5rem; align-items: start; }
figure { margin: 0; }
figure img { display: block; width: 100%; max-width: 34rem; height: auto; }
figcaption { font-size: .85rem; color: #555; }
.wide { overflow-x: auto; margin-top: .8rem; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #e4e4e4; white-space: nowrap; }
th { font-weight: 600; color: #444; }
th:first-child, td:first-child { text-align: left; }
td.best { font-weight: 700; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; margin: .5rem 0; }
dt { color: #555; }
dd { margin: 0; overflow-wrap: anywhere; min-width: 0; }
code { font-size: .9em; background: #f3f3f3; padding: 0 .25em; overflow-wrap: anywhere; }
.note { background: #fff6e0; border-left: 4px solid #e69f00; padding: .4rem .8rem; max-width: 75ch; }
details pre { overflow-x: auto; font-size: .8rem; background: #f7f7f7; padding: .8rem; }
footer { margin-top: 2.5rem; font-size: .85rem; color: #555; border-top: 1px solid #ddd; padding-top: .6rem; }
@media (max-width: 30rem) { main { padding: .5rem .75rem 2rem; } dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; } }
@media print { nav, details { display: none; } figure, table { break-inside: avoid; } }
"""


def escape(text):
    """Returns text for HTML: without markup and without characters that browsers reject."""
    return html.escape("".join(c if c >= " " or c in "\t\n" else "\N{REPLACEMENT CHARACTER}" for c in str(text)), quote=True)


def paragraph(text, kind=""):
    return f"<p{' class=' + chr(34) + kind + chr(34) if kind else ''}>{escape(text)}</p>" if text else ""


def command(before, text, behind=""):
    return f"<p>{escape(before)} <code>{escape(text)}</code>{escape(behind)}</p>"


def facts(pairs):
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs if value not in (None, "")) + "</dl>"


def pictures(found):
    items = "".join(f'<figure><img src="{picture.address()}" alt="{escape(picture.caption)}">'
                    f"<figcaption>{escape(picture.caption)}</figcaption></figure>" for picture in found)
    return f'<div class="pictures">{items}</div>' if items else ""


def table(heads, rows, best=()):
    """`best`: (row, column) of highlighted cells."""
    lines = ["<tr>" + "".join(f"<th>{escape(head)}</th>" for head in heads) + "</tr>"]
    for r, row in enumerate(rows):
        lines.append("<tr>" + "".join(f"<td{' class=' + chr(34) + 'best' + chr(34) if (r, c) in best else ''}>{escape(cell)}</td>"
                                      for c, cell in enumerate(row)) + "</tr>")
    return '<div class="wide"><table>' + "".join(lines) + "</table></div>"


def details(title, text):
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"


class Page:
    def __init__(self, title):
        self.title = title
        self.head = ""
        self.sections = []

    def section(self, name, title, *parts):
        """Adds a section; leaves it out without content."""
        content = "".join(part for part in parts if part)
        if content:
            self.sections.append((name, title, content))

    def text(self, footer):
        links = " ".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, _ in self.sections)
        body = "".join(f'<section id="{name}"><h2>{escape(title)}</h2>{content}</section>' for name, title, content in self.sections)
        return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
                '<meta name="viewport" content="width=device-width, initial-scale=1">'
                '<link rel="icon" href="data:,">'
                f"<title>{escape(self.title)}</title><style>{STYLE}</style></head><body><main>"
                f"<h1>{escape(self.title)}</h1>{self.head}<nav>{links}</nav>{body}<footer>{escape(footer)}</footer></main></body></html>\n")
