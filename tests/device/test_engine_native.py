"""The engine without Python: its C++ stress test, built and run."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPILER = os.environ.get("CXX", "g++").split()


@pytest.mark.skipif(shutil.which(COMPILER[0]) is None, reason="no C++ compiler")
def test_random_graphs_without_python(tmp_path):
    program = tmp_path / "engine_stress"
    subprocess.run([*COMPILER, "-std=c++17", "-O1", "-pthread", f"-I{ROOT}/src",
                    str(ROOT / "tests/device/engine_stress.cpp"),
                    str(ROOT / "src/engine/engine.cpp"), "-o", str(program)], check=True)
    done = subprocess.run([str(program), "10"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "all well" in done.stdout
