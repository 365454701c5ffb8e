"""Writes docs/metrics.md from the catalogue of metrics.

python -m tests.architecture.metrics_document
"""

from indexer.metrics.catalogue import SECTIONS, MetricSpec
from tests.architecture.imports import ROOT

PATH = ROOT / "docs" / "metrics.md"

HEAD = """\
<!-- Written by `make catalogue` from indexer/metrics/catalogue.py. -->

# Metrics

Prometheus's text format at `/metrics` of each process's own address; none is served until its
variable is set ([settings](settings.md)). Bind them to a private network: there is no sign-in.

| process | variable |
|---|---|
| API, and the exporter of the warehouse | `ISTHMUS_METRICS` |
| Dagster's code server, with all its runs | `ISTHMUS_METRICS_PIPELINES` |
| the relay's code server with all its runs, or `isthmus relay run` | `ISTHMUS_METRICS_RELAY` |
| `isthmus follow` | `ISTHMUS_METRICS_FOLLOW_<CHAIN>` |
| `isthmus attest` | `ISTHMUS_METRICS_ATTEST` |
| `isthmus transfers` | `ISTHMUS_METRICS_TRANSFERS` |
| `isthmus webhooks` | `ISTHMUS_METRICS_WEBHOOKS` |

No label value comes from a client. In `isthmus_loop_seconds_total` the reasons of a loop add up to
its time; an outer wait counts, not what happens within it:

| reason | the loop waits for |
|---|---|
| `idle` | a new block, a notification, the next turn |
| `node` | an answer of a node, or the pause after a failure |
| `postgres` | the database, or the pause after an outage |
| `lock` | a lease or row lock that another process holds |
| `fee` | balance or daily budget of a relay account |
| `attestation` | the attestation service or the explorer |
| `receiver` | receivers of webhooks |
| `work` | nothing: it computes |
"""


def document() -> str:
    """docs/metrics.md."""
    parts = [HEAD]
    for title, (about, specs) in SECTIONS.items():
        parts.append(f"\n## {title}\n\n{about}\n\n")
        parts.append("| metric | type, unit | labels | meaning | normal |\n|---|---|---|---|---|\n")
        parts += [_row(spec) for spec in specs]
    return "".join(parts)


def _row(spec: MetricSpec) -> str:
    labels = ", ".join(f"`{label}`" for label in spec.labels)
    cells = (f"`{spec.name}`", f"{spec.kind}, {spec.unit}", labels, spec.help, spec.normal)
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    PATH.write_text(document())
