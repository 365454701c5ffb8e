"""Steps as Kubernetes jobs: what the chart adds, and the jobs that the executor makes of it.

No Kubernetes runs here. A stand-in of its API takes the jobs, and starts each container's command
on this machine, with the container's environment.
"""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from sqlalchemy import URL, Engine

from devnet.local_server import Handler, Server, answering
from tests.architecture.imports import ROOT
from tests.deploy.test_chart import KUBERNETES, RELEASE, rendered

DOCUMENTS = list(rendered({"executor": "kubernetes", "image": "registry/isthmus:1"}))
ISTHMUS = str(Path(sys.executable).with_name("isthmus"))


def document(kind: str, name: str) -> dict[str, Any]:
    (found,) = (
        each for each in DOCUMENTS if (each["kind"], each["metadata"]["name"]) == (kind, name)
    )
    return found


def executor_config() -> dict[str, Any]:
    """The configuration that the chart gives the code server."""
    config: dict[str, Any] = yaml.safe_load(
        document("ConfigMap", "isthmus-steps")["data"]["kubernetes.yaml"]
    )
    return config


# The chart


def test_documents_follow_kubernetes_schemas() -> None:
    for each in DOCUMENTS:
        kubernetes_validate.validate(each, KUBERNETES, strict=True)


def test_nothing_is_added_by_default() -> None:
    plain = list(rendered({}))
    assert not {"ServiceAccount", "Role", "RoleBinding"} & {each["kind"] for each in plain}
    assert "ISTHMUS_EXECUTOR" not in yaml.safe_dump_all(plain)


def test_code_server_alone_may_start_jobs() -> None:
    pods = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in DOCUMENTS
        if each["kind"] in {"Deployment", "Job"}
    }
    with_token = {name for name, spec in pods.items() if spec["automountServiceAccountToken"]}
    assert with_token == {"isthmus-code-server"}
    assert pods["isthmus-code-server"]["serviceAccountName"] == "isthmus-code-server"
    role = document("Role", "isthmus-steps")
    granted = {(r, v) for rule in role["rules"] for r in rule["resources"] for v in rule["verbs"]}
    assert role["metadata"]["namespace"] == RELEASE
    assert {resource for resource, verb in granted if verb in {"create", "delete"}} == {
        *("jobs", "jobs/status")
    }
    assert not any("secret" in resource for resource, _ in granted)


def test_code_server_reaches_the_api_server_and_steps_do_not() -> None:
    def ports(name: str) -> set[int]:
        rules = document("NetworkPolicy", name)["spec"]["egress"]
        return {each["port"] for rule in rules for each in rule.get("ports", [])}

    assert ports("isthmus-code-server") == {53, 443, 5432, 6443}
    assert ports("isthmus-step") == {53, 443, 5432}
    assert "ingress" not in document("NetworkPolicy", "isthmus-step")["spec"]


# The jobs


@dataclass
class ApiServer:
    """Takes jobs and runs them, each as a process of this machine."""

    folder: Path
    env: Mapping[str, str]
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    paths: list[tuple[str, str]] = field(default_factory=list)
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Status and object of a request."""
        with self._lock:
            self.paths.append((method, path.partition("?")[0]))
            if method == "POST" and path.startswith(f"/apis/batch/v1/namespaces/{RELEASE}/jobs"):
                self._start(body)
                return 201, body
            found = re.match(rf"/apis/batch/v1/namespaces/{RELEASE}/jobs/([^/?]+)", path)
            if found is None or found[1] not in self.jobs:
                return 404, {"kind": "Status", "code": 404}
            return 200, self._with_status(found[1])

    def _start(self, job: dict[str, Any]) -> None:
        name = job["metadata"]["name"]
        self.jobs[name] = job
        (container,) = job["spec"]["template"]["spec"]["containers"]
        env = {each["name"]: each["value"] for each in container["env"]}
        # What is mounted there is not here.
        mine = {key: value for key, value in env.items() if not value.startswith(("/etc", "/run"))}
        assert container["command"][0] == "isthmus"
        with (self.folder / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [ISTHMUS, *container["command"][1:], *container["args"]],
                env={**os.environ, **self.env, **mine},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def wait(self) -> None:
        """Until every job's process is gone: a run can end before the process of its step."""
        for process in self._processes.values():
            process.wait()

    def _with_status(self, name: str) -> dict[str, Any]:
        code = self._processes[name].poll()
        status: dict[str, Any] = {"active": 1} if code is None else {"active": 0}
        if code is not None:
            status["succeeded" if code == 0 else "failed"] = 1
        return self.jobs[name] | {"status": status}


@pytest.fixture
def installation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database: URL) -> dict[str, str]:
    """The environment of code server and steps, but for the executor."""
    home = tmp_path / "dagster"
    home.mkdir()
    env = {
        "ISTHMUS_NETWORK": "devnet",
        "ISTHMUS_HOME": str(tmp_path / "home"),
        "DATABASE_URL": database.set(drivername="postgresql").render_as_string(hide_password=False),
        "DAGSTER_HOME": str(home),
        "DAGSTER_DISABLE_TELEMETRY": "1",
    }
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return env


@pytest.fixture
def close_day(engine: Engine) -> None:
    """The first of January 2025 is over."""
    noon, chain = 1_735_732_800, "eip155:31337"
    with engine.begin() as conn:
        for height, time in ((1, noon), (2, noon + 86_400)):
            values = (chain, height, f"0x{height:064x}", f"0x{height - 1:064x}", time, 0)
            columns = "chain, height, hash, parent_hash, time, events"
            conn.exec_driver_sql(
                f"INSERT INTO facts.blocks ({columns}) VALUES (%s, %s, %s, %s, %s, %s)", values
            )
        conn.exec_driver_sql(
            "INSERT INTO facts.cursors (chain, height, block_hash, block_time, head_height,"
            " head_time, final_height) SELECT chain, height, hash, time, height, time, height"
            " FROM facts.blocks WHERE height = 2"
        )


@pytest.fixture
def api_server(tmp_path: Path, installation: dict[str, str]) -> Iterator[ApiServer]:
    """The stand-in, and the executor's configuration that names it."""
    config = tmp_path / "kubernetes.yaml"
    env = {"ISTHMUS_EXECUTOR": "kubernetes", "ISTHMUS_KUBERNETES_CONFIG": str(config)}
    api = ApiServer(tmp_path, {**installation, **env, "PYTHONPATH": str(ROOT)})

    class RequestHandler(Handler):
        def do_POST(self) -> None:
            body = self.body()
            given = json.loads(body) if body else None
            status, answer = api.answer(self.command, self.path, given)
            self.answer(status, json.dumps(answer).encode(), {"content-type": "application/json"})

        do_GET = do_POST

    with answering(Server(("127.0.0.1", 0), RequestHandler)) as url:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "here",
                    "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                    "clusters": [{"name": "c", "cluster": {"server": url}}],
                    "users": [{"name": "u", "user": {}}],
                }
            )
        )
        local = {"load_incluster_config": False, "kubeconfig_file": str(kubeconfig)}
        config.write_text(yaml.safe_dump(executor_config() | local))
        yield api
    api.wait()


def run_figures(api: ApiServer) -> subprocess.CompletedProcess[str]:
    """A run of daily figures, in a process of its own as the code server starts it.

    The executor is chosen when the definitions are imported: this process may have done that.
    """
    tags = {
        "dagster/asset_partition_range_start": "2025-01-01",
        "dagster/asset_partition_range_end": "2025-01-01",
    }
    command = ["-m", "dagster", "job", "execute", "-m", "pipelines.definitions"]
    return subprocess.run(
        [sys.executable, *command, "-j", "compute_route_days", "--tags", json.dumps(tags)],
        env={**os.environ, **api.env},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("close_day")
def test_step_is_a_valid_hardened_job_that_runs(api_server: ApiServer) -> None:
    run = run_figures(api_server)
    assert len(api_server.jobs) == 1, run.stderr[-4_000:]
    ((name, job),) = api_server.jobs.items()
    log = (api_server.folder / f"{name}.log").read_text()
    assert run.returncode == 0, run.stderr[-4_000:] + log[-4_000:]
    kubernetes_validate.validate(job, KUBERNETES, strict=True)
    assert job["metadata"]["labels"]["app.kubernetes.io/component"] == "step"
    assert job["spec"]["backoffLimit"] == 0
    template = job["spec"]["template"]
    policy = document("NetworkPolicy", "isthmus-step")["spec"]["podSelector"]["matchLabels"]
    assert policy.items() <= template["metadata"]["labels"].items()
    spec = template["spec"]
    (container,) = spec["containers"]
    code = document("Deployment", "isthmus-code-server")["spec"]["template"]["spec"]
    (of_code,) = code["containers"]
    assert container["image"] == "registry/isthmus:1"
    assert spec["automountServiceAccountToken"] is False
    for key in ("securityContext", "volumes"):
        assert spec[key] == code[key]
    for key in ("securityContext", "volumeMounts"):
        assert container[key] == of_code[key]
    assert container["resources"]["limits"] == {"memory": "2Gi"}
    # No secret is in the job: the API server would show it.
    given = {each["name"]: each["value"] for each in container["env"]}
    assert {"DATABASE_URL_FILE", "ISTHMUS_DAGSTER_URL_FILE"} <= set(given)
    assert not {"DATABASE_URL", "ISTHMUS_DAGSTER_URL"} & set(given)


def test_step_command_starts_nothing_else() -> None:
    done = subprocess.run(
        [ISTHMUS, "step", "dagster", "instance", "info"], capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"not a step" in done.stderr
