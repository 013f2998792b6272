"""Options and fixtures for every test."""

from __future__ import annotations

import pytest

from xpr.runtimes import registry

DEFAULT_RUNTIME = "cpu"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--runtime",
        default=None,
        help="the runtime that the whole operation table runs on; without it on the CPU, "
        "and in part on the other runtimes that start here",
    )


def skip_unless_usable(name: str) -> None:
    """Skips with the runtime's own reason when it cannot start."""
    try:
        registry.devices(name)
    except RuntimeError as error:
        pytest.skip(f"runtime {name} is not usable here: {error}")


@pytest.fixture(scope="session")
def runtime(request: pytest.FixtureRequest) -> str:
    """The runtime under test."""
    name = str(request.config.getoption("--runtime") or DEFAULT_RUNTIME)
    skip_unless_usable(name)
    return name
