"""Alerts, their runbook, dashboards and the catalogue of metrics name each other rightly."""

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from indexer.metrics.catalogue import CATALOGUE
from tests.architecture.dashboards import DASHBOARDS, FOLDER, expressions
from tests.architecture.imports import ROOT

RUNBOOK = ROOT / "docs" / "operations" / "alerts.md"
_METRIC = re.compile(r"\bisthmus_[a-z_]+\b")
_LABELS = re.compile(r"\b(isthmus_[a-z_]+)\{([^}]*)\}")


def rules() -> list[dict[str, Any]]:
    text = (ROOT / "deploy" / "prometheus" / "rules.yaml").read_text()
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def unknown_names(expression: str) -> Iterator[str]:
    """Metrics that the catalogue lacks, and labels that its metric lacks."""
    for name in _METRIC.findall(expression):
        if _spec_name(name) not in CATALOGUE:
            yield name
    for name, matchers in _LABELS.findall(expression):
        spec = CATALOGUE.get(_spec_name(name))
        labels = set(re.findall(r"(\w+)\s*[=!]", re.sub(r'"[^"]*"', '""', matchers)))
        if spec is not None:
            yield from (f"{name}{{{label}}}" for label in labels - {*spec.labels, "job"})


def _spec_name(name: str) -> str:
    plain = re.sub(r"_(bucket|sum|count)$", "", name)
    return plain if plain in CATALOGUE else name


def test_each_alert_has_a_section_and_each_section_an_alert() -> None:
    sections = re.findall(r"^## (.*)$", RUNBOOK.read_text(), re.MULTILINE)
    assert sections == [rule["alert"] for rule in rules()]


def test_each_alert_links_its_section_and_says_what_to_do() -> None:
    page = RUNBOOK.relative_to(ROOT)
    wrong = [
        rule["alert"]
        for rule in rules()
        if rule["annotations"]["runbook_url"] != f"{page}#{rule['alert'].lower()}"
        or rule["labels"]["severity"] not in ("page", "ticket", "info")
        or rule["annotations"]["summary"].count(". ") < 1
    ]
    assert wrong == []


def test_each_section_has_commands_to_see_and_to_end() -> None:
    sections = re.split(r"^## ", RUNBOOK.read_text(), flags=re.MULTILINE)[1:]
    wrong = [
        section.partition("\n")[0]
        for section in sections
        if section.count("```sh\n") < 2 or "**See**" not in section or "**Over**" not in section
    ]
    assert wrong == []


def test_alerts_and_panels_ask_for_known_metrics_and_labels() -> None:
    asked = [rule["expr"] for rule in rules()]
    asked += [expression for each in DASHBOARDS for expression in expressions(each)]
    assert [name for expression in asked for name in unknown_names(expression)] == []


def test_planted_unknown_metric_and_label_are_found() -> None:
    expression = 'isthmus_nothing > 0 or isthmus_chain_well{wallet="a"}'
    assert list(unknown_names(expression)) == ["isthmus_nothing", "isthmus_chain_well{wallet}"]


def test_dashboards_are_current() -> None:
    stored = {path.stem: json.loads(path.read_text()) for path in FOLDER.glob("*.json")}
    assert stored == {each["uid"]: each for each in DASHBOARDS}, "run `make catalogue`"
