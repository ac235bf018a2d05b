"""Colours by meaning: readable on either background, nothing without colour, a sign for each."""

from __future__ import annotations

import re
from dataclasses import astuple
from itertools import pairwise

import pytest
from surroundings import with_variables

from nexus_cli.ui.render.markdown import Markdown
from nexus_cli.ui.render.theme import ASCII, DARK, LIGHT, UNICODE, Theme, choose_theme


def test_a_theme_that_changes_is_used_from_the_next_text_on() -> None:
    theme = Theme()
    markdown, text = Markdown(lambda: 40, theme), "`code`\n\n"
    dark = markdown.feed(text) + theme.paint("hunk", "x")
    theme.name = "light"
    light = markdown.feed(text) + theme.paint("hunk", "x")
    assert dark.strip() != light.strip() and "34m" in light and "36m" in dark


@pytest.mark.parametrize(
    ("setting", "environ", "name"),
    [
        ("auto", {}, "dark"),
        ("auto", {"COLORFGBG": "0;15"}, "light"),
        ("auto", {"COLORFGBG": "0;default;15"}, "light"),
        ("auto", {"COLORFGBG": "15;0"}, "dark"),
        ("auto", {"COLORFGBG": "7;8"}, "dark"),
        ("auto", {"COLORFGBG": ";"}, "dark"),
        ("auto", {"COLORFGBG": "0;²"}, "dark"),
        ("light", {"COLORFGBG": "15;0"}, "light"),
        ("dark", {"COLORFGBG": "0;15"}, "dark"),
    ],
)
def test_auto_asks_the_terminal_and_a_setting_decides(setting: str, environ: dict[str, str], name: str) -> None:
    assert with_variables(environ, choose_theme, setting, True).name == name


@pytest.mark.parametrize(
    ("environ", "signs"),
    [
        ({}, UNICODE),
        ({"LANG": "en_US.UTF-8"}, UNICODE),
        ({"LANG": "de_DE.utf8@euro"}, UNICODE),
        ({"LC_CTYPE": "UTF-8"}, UNICODE),
        ({"LANG": "C"}, ASCII),
        ({"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, ASCII),
        ({"LC_ALL": "", "LANG": "en_US.ISO-8859-1"}, ASCII),
    ],
)
def test_signs_are_ascii_where_the_locale_is_not_utf_8(environ: dict[str, str], signs: object) -> None:
    assert with_variables(environ, choose_theme, "auto", True).signs == signs


def test_the_ascii_signs_are_ascii_and_say_the_same_with_different_signs() -> None:
    assert all(str(sign).isascii() for sign in astuple(ASCII))
    for signs in (ASCII, UNICODE):
        outcomes = {signs.ok, signs.error, signs.warn, signs.running}
        assert len(outcomes) == 4 and signs.added != signs.removed and len({*signs.shades}) == 4
        assert all(one != other for one, other in pairwise(signs.frames))


def test_a_dumb_terminal_has_bars_of_ascii() -> None:
    signs = with_variables({"TERM": "dumb"}, choose_theme, "auto", False).signs
    assert (signs.levels + signs.shades + signs.below).isascii() and signs.ok == UNICODE.ok


def test_every_role_has_a_colour_of_the_sixteen_on_both_backgrounds() -> None:
    assert DARK.keys() == LIGHT.keys()
    codes = {int(code) for table in (DARK, LIGHT) for value in table.values() for code in value.split(";")}
    assert codes <= {1, 2, 7, *range(30, 38), *range(90, 98)}


def test_on_white_nothing_is_bright_yellow_white_or_cyan() -> None:
    codes = {int(code) for value in LIGHT.values() for code in value.split(";")}
    assert not codes & {33, 36, 37, *range(90, 98)}


def test_without_colour_paint_changes_nothing() -> None:
    theme = choose_theme("auto", False)
    assert not theme.colour
    assert [theme.paint(role, "a\nb") for role in DARK] == ["a\nb"] * len(DARK)


def test_without_colour_a_screen_keeps_bold_and_the_like() -> None:
    theme = with_variables({"NO_COLOR": "1"}, choose_theme, "auto", False, screen=True)
    painted = {role: theme.paint(role, "a") for role in DARK}
    assert painted["person"] == painted["tool"] == "\x1b[1ma\x1b[0m" and painted["error"] == "a"
    assert painted["added word"] == "\x1b[7ma\x1b[0m"
    assert not with_variables({"NO_COLOR": "1"}, choose_theme, "auto", False).codes


def test_each_line_is_painted_by_itself_and_colours_within_do_not_end_the_outer() -> None:
    theme = Theme()
    painted = theme.paint("dim", f"a {theme.paint('error', 'b')} c\n\nd")
    assert painted.split("\n")[1] == ""
    assert all(re.fullmatch(r"(\x1b\[[0-9;]+m[^\x1b]*)+\x1b\[0m", line) for line in painted.split("\n") if line)
    assert "\x1b[0m\x1b[2m c" in painted
    assert theme.paint("unheard of", "x") == "x"


@pytest.mark.parametrize(
    ("environ", "links"),
    [
        ({}, False),
        ({"TERM": "xterm-256color"}, False),
        ({"TERM_PROGRAM": "Apple_Terminal"}, False),
        ({"TERM_PROGRAM": "WezTerm"}, True),
        ({"TERM": "xterm-kitty"}, True),
        ({"VTE_VERSION": "7600"}, True),
        ({"VTE_VERSION": "4205"}, False),
        ({"WT_SESSION": "x"}, True),
        ({"TERM_PROGRAM": "WezTerm", "TMUX": "/tmp/tmux"}, False),
        ({"VTE_VERSION": "7600", "TERM": "screen-256color"}, False),
    ],
)
def test_links_are_for_terminals_that_are_known_to_take_them(environ: dict[str, str], links: bool) -> None:
    assert with_variables(environ, choose_theme, "auto", True, screen=True).links is links
    assert (
        not with_variables(environ, choose_theme, "auto", True).links
        and not with_variables(environ, choose_theme, "auto", False, screen=True).links
    )
