"""Accessibility, the same for every page: axe-core, the focus and the narrowest window."""

import json
from collections.abc import Mapping
from pathlib import Path

from tests.system.page.visiting import Visit

AXE = Path(__file__).resolve().parents[3] / "node_modules" / "axe-core" / "axe.min.js"
NARROWEST = {"width": 320, "height": 640}


def violations(visit: Visit, ignored: Mapping[str, str] | None = None) -> list[str]:
    """Every violation that axe-core finds, whatever its impact, a line each.

    The visit needs `bypass_csp`: a policy that lets no string become a script keeps axe-core out.
    `ignored` maps a rule to a part of the selector of the elements that are not ours to mend.
    """
    visit.page.evaluate(AXE.read_text())
    found = visit.page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    assert len(found["passes"]) > 20
    lines = []
    for each in found["violations"]:
        part = (ignored or {}).get(each["id"])
        targets = [node["target"] for node in each["nodes"]]
        kept = [target for target in targets if part is None or part not in target[-1]]
        if kept:
            lines.append(f"{each['impact']} {each['id']}: {json.dumps(kept)}")
    return lines


def focused(visit: Visit) -> str:
    """The element that has the focus: its id, its name or its text."""
    text: str = visit.page.evaluate(
        """() => {
            const there = document.activeElement;
            return there.id || there.name || there.textContent.trim();
        }"""
    )
    return text
