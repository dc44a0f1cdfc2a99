"""What ``scripts/run --replicas`` starts, and what a gateway without Redis never loads."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

from gateway.config import SlotBackend, load

ROOT = Path(__file__).parents[2]
URL = "redis://127.0.0.1:1/0"


def test_each_replica_gets_ports_of_its_own_and_the_same_line(tmp_path: Path) -> None:
    write_configs = runpy.run_path(str(ROOT / "scripts" / "replicas.py"))["write_configs"]
    configs = [load(path) for path in write_configs(ROOT / "config.yaml", 3, URL, tmp_path)]
    assert [config.listen.port for config in configs] == [8080, 8090, 8100]
    assert [config.admin.port for config in configs if config.admin] == [8081, 8091, 8101]
    assert {(config.slots.backend, config.slots.url) for config in configs} == {
        (SlotBackend.REDIS, URL)
    }
    assert len({str(config.upstreams) for config in configs}) == 1


def test_a_line_in_memory_needs_no_redis_package() -> None:
    check = "import gateway.app, sys; sys.exit('redis' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], cwd=ROOT, check=True)
