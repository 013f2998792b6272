"""Libraries written for JAX: an example of each, unchanged, gives what it gives with JAX.

The golden data were made by JAX 0.10.2 and the pinned versions of the libraries
(`run_example.py`). optax and equinox run always, where they are installed; the others with
XPR_CLIENTS=1. `pip install --no-deps -r` of requirements.txt and of requirements_more.txt, both
beside this file, installs them without JAX.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).resolve().parent
ALWAYS = ("optax", "equinox")
# Examples that are not named after the module they need.
MODULES = {
    "flax_hijax": "flax",
    "flax_nnx": "flax",
    "mjx": "mujoco",
    "tfp": "tensorflow_probability",
}
CLIENTS = sorted(p.stem.removesuffix("_example") for p in (HERE / "examples").glob("*.py"))


@pytest.mark.parametrize("client", CLIENTS)
def test_an_example_gives_what_it_gives_with_jax(client: str, tmp_path: Path) -> None:
    if client not in ALWAYS and os.environ.get("XPR_CLIENTS") != "1":
        pytest.skip("most client libraries run with XPR_CLIENTS=1 only")
    if importlib.util.find_spec(MODULES.get(client, client)) is None:
        pytest.skip(f"{client} is not installed (tests/clients/requirements*.txt)")
    output = tmp_path / "found.json"
    example = HERE / "examples" / f"{client}_example.py"
    done = subprocess.run(
        [sys.executable, "-m", "xpr.compat", HERE / "run_example.py", example, output],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the compiler cannot compile" not in done.stderr, done.stderr
    golden = json.loads((HERE / "golden" / f"{client}.json").read_text(encoding="utf-8"))
    found = json.loads(output.read_text(encoding="utf-8"))
    assert found["jax"] == golden["jax"]
    # `coarse` are statistics of chains of random steps, which part when a last bit decides.
    for kind, rtol, atol in (("results", 2e-4, 2e-5), ("coarse", 0.2, 0.2)):
        assert len(found[kind]) == len(golden[kind])
        for i, (a, b) in enumerate(zip(found[kind], golden[kind], strict=True)):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol, err_msg=f"{kind}[{i}]")
