"""A drawing as SVG text: boxes, lines, arrows, words. Its colours follow the reader's light or dark scheme."""

import html

STYLE = """
.paper{fill:#ffffff} .ink{fill:#20242c} .soft{fill:#5a6270} .line{stroke:#5a6270;fill:none} .frame{stroke:#5a6270;fill:none}
.a{fill:#cfe3ff;stroke:#2f6fd0} .b{fill:#d6f2d8;stroke:#2e8b47} .c{fill:#ffe3bf;stroke:#c2781a} .d{fill:#f2d3e6;stroke:#a8387a}
.e{fill:#eceff3;stroke:#8a93a1} .sa{stroke:#2f6fd0;fill:none} .sb{stroke:#2e8b47;fill:none} .sc{stroke:#c2781a;fill:none}
.sd{stroke:#a8387a;fill:none} .se{stroke:#8a93a1;fill:none} .tip{fill:#5a6270}
@media (prefers-color-scheme:dark){
.paper{fill:#1c2028} .ink{fill:#e8ebf0} .soft{fill:#aab2c0} .line{stroke:#aab2c0} .frame{stroke:#aab2c0} .tip{fill:#aab2c0}
.a{fill:#1f3a63;stroke:#7fb0ff} .b{fill:#1d4528;stroke:#7fd193} .c{fill:#553a12;stroke:#f0b050} .d{fill:#4e2140;stroke:#e58cc1}
.e{fill:#2c323d;stroke:#8a93a1} .sa{stroke:#7fb0ff} .sb{stroke:#7fd193} .sc{stroke:#f0b050} .sd{stroke:#e58cc1}}
text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}
""".strip()


def number(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")


class Drawing:
    """Coordinates are pixels from the upper left corner; `title` is what a screen reader says."""

    def __init__(self, width: int, height: int, title: str):
        self.width, self.height, self.title = width, height, title
        self.parts: list[str] = []

    def box(self, x, y, width, height, kind="e", radius=4, dash=""):
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<rect class="{kind}" x="{number(x)}" y="{number(y)}" width="{number(width)}" '
                          f'height="{number(height)}" rx="{radius}" stroke-width="1.2"{dashes}/>')

    def text(self, x, y, words, size=13, anchor="middle", kind="ink", weight="normal"):
        self.parts.append(f'<text class="{kind}" x="{number(x)}" y="{number(y)}" font-size="{size}" '
                          f'text-anchor="{anchor}" font-weight="{weight}">{html.escape(words)}</text>')

    def labelled(self, x, y, width, height, words, kind="e", size=13, second=""):
        """A box with one or two centred lines."""
        self.box(x, y, width, height, kind)
        middle = y + height / 2 + size * 0.36
        if not second:
            self.text(x + width / 2, middle, words, size)
            return
        self.text(x + width / 2, middle - size * 0.62, words, size)
        self.text(x + width / 2, middle + size * 0.72, second, size - 2, kind="soft")

    def line(self, points, kind="line", width=1.5, dash=""):
        path = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<polyline class="{kind}" points="{path}" stroke-width="{number(width)}"{dashes}/>')

    def arrow(self, start, end, kind="line", width=1.5, dash=""):
        (x0, y0), (x1, y1) = start, end
        length = max(1e-9, ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5)
        ux, uy = (x1 - x0) / length, (y1 - y0) / length
        self.line([start, (x1 - 6 * ux, y1 - 6 * uy)], kind, width, dash)
        corners = [(x1, y1), (x1 - 9 * ux - 4 * uy, y1 - 9 * uy + 4 * ux), (x1 - 9 * ux + 4 * uy, y1 - 9 * uy - 4 * ux)]
        self.parts.append('<polygon class="tip" points="' + " ".join(f"{number(x)},{number(y)}" for x, y in corners) + '"/>')

    def dot(self, x, y, radius=3.0, kind="a"):
        self.parts.append(f'<circle class="{kind}" cx="{number(x)}" cy="{number(y)}" r="{number(radius)}"/>')

    def svg(self) -> str:
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
                f'height="{self.height}" role="img" aria-label="{html.escape(self.title, quote=True)}">')
        return "\n".join([head, f"<title>{html.escape(self.title)}</title>", f"<style>{STYLE}</style>",
                          f'<rect class="paper" width="{self.width}" height="{self.height}" rx="8"/>', *self.parts, "</svg>", ""])
