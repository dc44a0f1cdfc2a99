"""What every test may use: the rule for servers and clients that a machine may not have."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import pytest

REQUIRED = os.environ.get("CI") == "true" or os.environ.get("GATEWAY_REQUIRE_SERVERS") == "1"


def missing(what: str) -> None:
    """Fails a test that needs what is not there, or skips it by name where that is allowed."""
    reason = f"{what} is not installed; scripts/test installs it on Debian as root"
    if REQUIRED:
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def program() -> Callable[[str], str]:
    """The path of a server's program, such as ``nginx``."""

    def find(name: str) -> str:
        path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        if path is None:
            missing(name)
        assert path is not None
        return path

    return find
