"""A screen as an SVG picture: cells with their colours in a window frame. Not known here is where they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from xml.sax.saxutils import escape

from terminal.emulator import Cell
from wcwidth import wcswidth

WIDE, HIGH, SIZE = 8.4, 18, 14
"""Pixels: of a place, of a row, of the letters."""
PAD, BAR = 14, 30
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
NAMES = ("black", "red", "green", "brown", "blue", "magenta", "cyan", "white")


@dataclass(frozen=True, slots=True)
class Palette:
    """What a terminal makes of the sixteen colours, and its own two."""

    ground: str
    text: str
    frame: str
    title: str
    colours: Sequence[str]
    """The eight, then the bright eight, in the order of `NAMES`."""

    def colour(self, name: str, default: str) -> str:
        """A colour by the name that the emulator gives it."""
        if name == "default":
            return default
        bright = name.startswith("bright")
        plain = name.removeprefix("bright").replace("yellow", "brown")
        if plain in NAMES:
            return self.colours[NAMES.index(plain) + (8 if bright else 0)]
        return f"#{name}"


DARK = Palette(
    "#0d1117",
    "#d6dde5",
    "#21262d",
    "#8b949e",
    (
        "#484f58",
        "#ff7b72",
        "#3fb950",
        "#d29922",
        "#58a6ff",
        "#bc8cff",
        "#39c5cf",
        "#b1bac4",
        "#6e7681",
        "#ffa198",
        "#56d364",
        "#e3b341",
        "#79c0ff",
        "#d2a8ff",
        "#56d4dd",
        "#ffffff",
    ),
)
LIGHT = Palette(
    "#ffffff",
    "#1f2328",
    "#eaeef2",
    "#656d76",
    (
        "#24292f",
        "#cf222e",
        "#116329",
        "#7d4e00",
        "#0969da",
        "#8250df",
        "#1b7c83",
        "#6e7781",
        "#57606a",
        "#a40e26",
        "#1a7f37",
        "#9a6700",
        "#218bff",
        "#a475f9",
        "#3192aa",
        "#8c959f",
    ),
)
PALETTES: Mapping[str, Palette] = {"dark": DARK, "light": LIGHT}


def svg(
    rows: Sequence[Sequence[Cell]], *, title: str, palette: Palette = DARK, cursor: tuple[int, int] | None = None
) -> str:
    """The rows as a picture; `title` stands in the frame, `cursor` is a place or None."""
    parts = [*_frame(max(map(len, rows), default=1), len(rows), title, palette)]
    for number, row in enumerate(rows):
        parts += _row(row, number, palette)
    parts += _cursor(cursor, palette)
    return "\n".join([*parts, "</svg>", ""])


@dataclass(frozen=True, slots=True)
class Scene:
    """What a moving picture shows for some time."""

    rows: Sequence[Sequence[Cell]]
    seconds: float
    cursor: tuple[int, int] | None = None


def film(scenes: Sequence[Scene], *, title: str, palette: Palette = DARK) -> str:
    """The scenes one after the other, again and again; where nothing moves, the last one.

    A row that several scenes show is written once.
    """
    whole = sum(scene.seconds for scene in scenes)
    known: dict[str, str] = {}
    shown, rules, begin = [], [], 0.0
    for number, scene in enumerate(scenes):
        drawn = ["\n".join(_row(row, place, palette)) for place, row in enumerate(scene.rows)]
        uses = [f'<use href="#{known.setdefault(row, f"r{len(known)}")}"/>' for row in drawn if row]
        last = number == len(scenes) - 1
        style = "" if last else ' visibility="hidden"'
        shown.append(f'<g id="s{number}"{style}>{"".join([*uses, *_cursor(scene.cursor, palette)])}</g>')
        begins, ends = (f"{100 * moment / whole:.2f}%" for moment in (begin, begin + scene.seconds))
        hidden = [*(["0%{visibility:hidden}"] if number else []), *([] if last else [f"{ends}{{visibility:hidden}}"])]
        rules.append(f"@keyframes k{number}{{{begins}{{visibility:visible}}{''.join(hidden)}}}")
        rules.append(f"#s{number}{{animation:k{number} {whole:.2f}s step-end infinite}}")
        begin += scene.seconds
    frame = _frame(max(len(row) for row in scenes[0].rows), max(len(one.rows) for one in scenes), title, palette)
    rows = (f'<g id="{name}">{row}</g>' for row, name in known.items())
    still = "@media (prefers-reduced-motion:reduce){g{animation:none!important}}"
    return "\n".join([*frame, "<style>", *rules, still, "</style>", "<defs>", *rows, "</defs>", *shown, "</svg>", ""])


def _frame(columns: int, rows: int, title: str, palette: Palette) -> list[str]:
    """The window without its content."""
    width, height = round(columns * WIDE + 2 * PAD, 1), rows * HIGH + BAR + PAD + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        f' font-family="{FONT}" font-size="{SIZE}">',
        f"<title>{escape(title)}</title>",
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" fill="{palette.ground}"'
        f' stroke="{palette.frame}"/>',
        f'<path d="M0.5 {BAR}V8.5a8 8 0 0 1 8-8H{width - 8.5}a8 8 0 0 1 8 8V{BAR}Z" fill="{palette.frame}"/>',
    ]
    lamps = zip((20, 38, 56), ("#ff5f57", "#febc2e", "#28c840"), strict=True)
    parts += [f'<circle cx="{x}" cy="15.5" r="5.5" fill="{colour}"/>' for x, colour in lamps]
    parts.append(
        f'<text x="{width / 2:g}" y="20" text-anchor="middle" font-size="12" fill="{palette.title}">'
        f"{escape(title)}</text>"
    )
    return parts


def _cursor(cursor: tuple[int, int] | None, palette: Palette) -> list[str]:
    if cursor is None:
        return []
    x, y = PAD + cursor[0] * WIDE, BAR + 8 + cursor[1] * HIGH
    return [f'<rect x="{x:g}" y="{y:g}" width="{WIDE}" height="{HIGH}" fill="{palette.text}" fill-opacity="0.55"/>']


def _row(row: Sequence[Cell], number: int, palette: Palette) -> Iterator[str]:
    """Grounds first, then the words of one look, each at its own place, so that no font can shift the next one."""
    top, base = BAR + 8 + number * HIGH, BAR + 8 + number * HIGH + 13.5
    place = 0
    texts = []
    for look, run in groupby(row, key=lambda cell: cell._replace(data="")):
        cells = list(run)
        text_colour, ground = _colours(look, palette)
        x = PAD + place * WIDE
        if ground != palette.ground:
            yield f'<rect x="{x:g}" y="{top}" width="{len(cells) * WIDE:g}" height="{HIGH}" fill="{ground}"/>'
        for start, words in _words(cells):
            if words.strip():
                texts.append(_text(PAD + (place + start) * WIDE, base, words, text_colour, look))
        place += len(cells)
    yield from texts


def _words(cells: Sequence[Cell]) -> Iterator[tuple[int, str]]:
    """Pieces of text with their places: ended by a wide character or by two blanks, where a font could drift."""
    start, piece = 0, ""
    for place, cell in enumerate(cells):
        wide = wcswidth(cell.data[:1] or "x") == 2
        if piece and (wide or (cell.data == " " and piece.endswith(" "))):
            yield start, piece
            piece = ""
        if not piece:
            start = place
        piece += cell.data
        if wide:
            yield start, piece
            piece = ""
    if piece:
        yield start, piece


def _text(x: float, y: float, words: str, colour: str, look: Cell) -> str:
    shown = words.rstrip(" ")
    x += (len(shown) - len(shown.lstrip(" "))) * WIDE
    shown = shown.lstrip(" ")
    style = ' font-weight="bold"' if look.bold else ""
    style += ' font-style="italic"' if look.italics else ""
    style += ' fill-opacity="0.6"' if look.dim else ""
    lines = [name for name, on in (("underline", look.underscore), ("line-through", look.strikethrough)) if on]
    style += f' text-decoration="{" ".join(lines)}"' if lines else ""
    length = f' textLength="{wcswidth(shown) * WIDE:g}" lengthAdjust="spacingAndGlyphs"' if len(shown) > 1 else ""
    return f'<text x="{x:g}" y="{y:g}" fill="{colour}"{style}{length} xml:space="preserve">{escape(shown)}</text>'


def _colours(look: Cell, palette: Palette) -> tuple[str, str]:
    text, ground = palette.colour(look.fg, palette.text), palette.colour(look.bg, palette.ground)
    return (ground, text) if look.reverse else (text, ground)
