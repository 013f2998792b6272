"""Options and fixtures for every test."""

from __future__ import annotations

import pytest

from xpr.runtimes import registry


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--runtime", default="cpu", help="the runtime that compiled programs run on")


@pytest.fixture(scope="session")
def runtime(request: pytest.FixtureRequest) -> str:
    """The runtime under test; skips with the runtime's own reason when it cannot start."""
    name = str(request.config.getoption("--runtime"))
    try:
        registry.devices(name)
    except RuntimeError as error:
        pytest.skip(f"runtime {name} is not usable here: {error}")
    return name
