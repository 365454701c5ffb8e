"""Steps as Kubernetes jobs, of runs that stay where the code server is.

`dagster_k8s.k8s_job_executor` takes much of its configuration from `K8sRunLauncher`, and fails
without one. That launcher is for all runs of an instance: followers and checks would be pods that
start for seconds, and the daemon would start pods that hold the relay's keys. So the executor is
put together here, from Dagster's parts, with its own configuration alone.
"""

from typing import Any, cast

import dagster as dg
from dagster import _check as check
from dagster._core.execution.retries import RetryMode
from dagster._core.executor.step_delegating import StepDelegatingExecutor
from dagster._core.executor.step_delegating.step_handler.base import StepHandlerContext
from dagster_k8s.container_context import K8sContainerContext
from dagster_k8s.executor import K8sStepHandler, k8s_job_executor
from dagster_k8s.job import (
    DagsterK8sJobConfig,
    UserDefinedDagsterK8sConfig,
    get_user_defined_k8s_config,
)

_FROM_CONFIG = (
    *("image_pull_policy", "image_pull_secrets", "service_account_name", "env_config_maps"),
    *("env_secrets", "env_vars", "volume_mounts", "volumes", "labels", "resources"),
    *("scheduler_name", "security_context"),
)
"""Fields of the executor's configuration that have the same name in the container context."""


class StepContext(K8sContainerContext):
    """What a step's container gets, with nothing of a run launcher."""

    def get_k8s_job_config(self, job_image: str | None, run_launcher: object) -> Any:
        """Of the image alone: the container's environment says where Dagster's database is."""
        return DagsterK8sJobConfig(job_image=job_image, dagster_home=None)


class StepJobHandler(K8sStepHandler):
    """Starts, watches and ends the job of a step."""

    def _get_container_context(self, step_handler_context: StepHandlerContext) -> StepContext:
        (step,) = check.not_none(step_handler_context.execute_step_args.step_keys_to_execute)
        tagged = get_user_defined_k8s_config(step_handler_context.step_tags[step])
        merged = self._executor_container_context.merge(K8sContainerContext(run_k8s_config=tagged))
        return StepContext(**merged._asdict())


def _create(init_context: dg.InitExecutorContext) -> dg.Executor:
    config = cast("dict[str, Any]", init_context.executor_config)
    context = K8sContainerContext(
        **{name: config.get(name) for name in _FROM_CONFIG},
        namespace=config["job_namespace"],
        run_k8s_config=UserDefinedDagsterK8sConfig.from_dict(config.get("step_k8s_config", {})),
    )
    return StepDelegatingExecutor(
        StepJobHandler(
            image=config["job_image"],
            container_context=context,
            load_incluster_config=config.get("load_incluster_config", True),
            kubeconfig_file=config.get("kubeconfig_file"),
        ),
        retries=check.not_none(RetryMode.from_config(config["retries"])),
        max_concurrent=config.get("max_concurrent"),
        should_verify_step=True,
    )


kubernetes_executor = dg.ExecutorDefinition(
    name="kubernetes",
    description="A Kubernetes job for each step.",
    config_schema=k8s_job_executor.config_schema.config_type,
    requirements=k8s_job_executor.get_requirements,
    executor_creation_fn=_create,
)
"""Configured as `dagster_k8s.k8s_job_executor`, with `job_image` and `job_namespace`."""
