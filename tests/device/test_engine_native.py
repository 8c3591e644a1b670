"""The engine, and the team behind parallel_for, without Python: C++ stress tests, built and run."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPILER = os.environ.get("CXX", "g++").split()


@pytest.mark.skipif(shutil.which(COMPILER[0]) is None, reason="no C++ compiler")
@pytest.mark.parametrize("part", ["engine/engine", "team"])
def test_stress_without_python(part, tmp_path):
    program = tmp_path / "stress"
    subprocess.run([*COMPILER, "-std=c++17", "-O1", "-pthread", "-fopenmp", f"-I{ROOT}/src",
                    str(ROOT / f"tests/device/{Path(part).name}_stress.cpp"),
                    str(ROOT / f"src/{part}.cpp"), "-o", str(program)], check=True)
    # AddressSanitizer's library, put before Python by tools/sanitize.sh, cannot allocate in a child
    # forked while another thread does; these programs have their own run, with ThreadSanitizer
    env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run([str(program), "10"], env=env, capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    assert "all well" in done.stdout
