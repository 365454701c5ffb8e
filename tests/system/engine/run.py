"""A run of one of our jobs, in a process of its own, as the code server's fork does it.

    python -m tests.system.engine.run JOB CONFIG TAGS

CONFIG and TAGS are JSON. Prints the run's id; exits 1 when the run fails.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from pipelines.environment import prepare_dagster


def main(arguments: Sequence[str]) -> int:
    """Execute the job; 0 for success."""
    job, config, tags = arguments
    prepare_dagster()
    import dagster as dg
    from dagster._core.definitions.reconstruct import ReconstructableRepository

    root = str(Path(__file__).parents[3])
    repository = ReconstructableRepository.for_module("pipelines.definitions", "defs", root)
    with dg.DagsterInstance.get() as instance:
        result = dg.execute_job(
            repository.get_reconstructable_job(job),
            instance=instance,
            run_config=json.loads(config),
            tags=json.loads(tags),
        )
        sys.stdout.write(result.run_id)
        return 0 if result.success else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
