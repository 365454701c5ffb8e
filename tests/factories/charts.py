"""Charts of query results, the same bytes for the same rows and version of matplotlib."""

import io
from collections.abc import Sequence
from datetime import date
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

_COLOURS = ("#1f6feb", "#d1495b", "#2a9d8f", "#b07d10")
_SETTINGS: dict[Any, Any] = {
    # The salt of ids, and letters as paths: no font of the machine is used.
    "svg.hashsalt": "isthmus",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    """An SVG of a result.

    With a date in the first column: a line per value of the middle column. Otherwise a bar per row.
    The last column is the measure; every row needs one.
    """
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(7.2, 2.8), layout="constrained", facecolor="white")
        axes = figure.subplots()
        if isinstance(rows[0][0], date):
            for colour, name in zip(_COLOURS, sorted({row[1] for row in rows}), strict=False):
                own = [row for row in rows if row[1] == name]
                values = [float(row[-1]) for row in own]
                axes.plot([row[0] for row in own], values, label=name, color=colour, lw=1.4)
            axes.legend(frameon=False, ncols=4, loc="upper left")
            axes.margins(x=0.01, y=0.2)
        else:
            bars = axes.barh(
                [row[0] for row in rows], [float(row[-1]) for row in rows], color=_COLOURS[0]
            )
            axes.bar_label(bars, padding=3)
            axes.invert_yaxis()
        axes.set(xlabel="" if len(names) > 2 else names[-1], ylabel=names[-1] * (len(names) > 2))
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()
