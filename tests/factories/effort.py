"""How much a property test tries."""

import os

from hypothesis import HealthCheck, settings

TIMES = int(os.environ.get("ISTHMUS_EXAMPLES", "1"))


def effort(examples: int) -> settings:
    """So many examples, the same in every run.

    With `ISTHMUS_EXAMPLES=50` it is fifty times as many, and others each time: a failure prints the
    arguments that show it again.
    """
    return settings(
        max_examples=examples * TIMES,
        derandomize=TIMES == 1,
        database=None,
        # A fixture of the test's own is rolled back by the example that used it.
        suppress_health_check=list(HealthCheck),
    )
