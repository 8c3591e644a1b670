"""Which folders become packages, and how the native core in ``src/`` is built.

The rest of the project's description is in pyproject.toml. `tools/minigluon_launch` is installed
as a package of its own beside `minigluon`: the launcher must not import what it launches, and
`python tools/launch.py` must work where nothing is installed.

The native core is optional: without a compiler, without oneDNN, or with ``MINIGLUON_NATIVE=0``
minigluon runs on NumPy alone, and the build says so in one line. ``MINIGLUON_SANITIZE=1`` builds
with AddressSanitizer and UBSan, ``MINIGLUON_SANITIZE=thread`` with ThreadSanitizer
(``tools/sanitize.sh`` runs tests with each).

``python setup.py build_ext --inplace`` compiles only what changed, on all cores, and may be
started by several people at once in one checkout.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
SANITIZE = {"": "", "0": "", "thread": "thread"}.get(
    os.environ.get("MINIGLUON_SANITIZE", ""), "address,undefined")
FLAGS = ["-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-ffunction-sections",
         "-fopenmp", "-fno-math-errno",
         "-ffp-contract=fast", "-Wall", "-Wextra", "-Wno-unused-parameter",
         "-DNPY_NO_DEPRECATED_API=NPY_1_23_API_VERSION",
         "-DNPY_TARGET_VERSION=NPY_1_23_API_VERSION"]
# What nanobind's authors ask for where its own sources are compiled.
NANOBIND_FLAGS = ["-fno-strict-aliasing", "-DNDEBUG", "-DNB_COMPACT_ASSERTIONS", "-w"]


def sources(folder: str) -> list[str]:
    """All C++ files of one part, relative to the project; `src` means all but oneDNN's."""
    found = sorted((ROOT / folder).rglob("*.cpp"))
    names = [path.relative_to(ROOT).as_posix() for path in found]
    return [name for name in names if folder != "src" or not name.startswith("src/onednn/")]


def core() -> Extension:
    """The native core: bindings, program executor, kernels of our own."""
    nanobind = importlib.import_module("nanobind")
    numpy = importlib.import_module("numpy")
    combined = Path(nanobind.source_dir()) / "nb_combined.cpp"
    robin_map = Path(nanobind.source_dir()).parent / "ext" / "robin_map" / "include"
    return Extension(
        "minigluon._core", [*sources("src"), str(combined)],
        include_dirs=["src", nanobind.include_dir(), str(robin_map), numpy.get_include()],
        language="c++")


def onednn() -> Extension | None:
    """Kernels that call oneDNN, where both of its wheels are installed."""
    files = sources("src/onednn")
    if not files or sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    include = _folder_with("onednn-devel-cpu-gomp", "dnnl.hpp")
    library = _folder_with("onednn-cpu-gomp", "libdnnl.so.3")
    return Extension(
        "minigluon._onednn", [*files, "src/conv_epilogue.cpp", "src/product.cpp",
                              "src/registry.cpp", "src/kernels/dropout_loops.cpp",
                              "src/kernels/sets.cpp"],
        include_dirs=["src", str(include)], language="c++",
        extra_link_args=[f"-L{library}", "-l:libdnnl.so.3", "-Wl,-rpath,$ORIGIN/../../.."])


def _folder_with(distribution: str, name: str) -> Path:
    """The folder in which an installed distribution keeps a file."""
    for path in importlib.metadata.files(distribution) or ():
        if path.name == name and path.parent.name != "oneapi":
            return Path(str(path.locate())).resolve().parent
    raise FileNotFoundError(f"{distribution} has no {name}")


class BuildNative(build_ext):
    """Compiles changed files only, in parallel, under a lock; a failure is one line, no error."""

    def run(self) -> None:
        if os.environ.get("MINIGLUON_NATIVE", "1") == "0":
            print("minigluon: native core switched off (MINIGLUON_NATIVE=0): NumPy alone")
            self.extensions = []
            return
        self.extensions = []
        self.folder = ROOT / "build" / f"native-{sysconfig.get_config_var('SOABI')}"
        self.folder /= f"sanitize-{SANITIZE}" if SANITIZE else "plain"
        with _lock(self.folder):
            for part, make in (("native core", core), ("oneDNN kernels", onednn)):
                try:
                    extension = make()
                    if extension is not None:
                        self._build(extension)
                        self.extensions.append(extension)
                except Exception as error:  # any reason: the package works without
                    text = str(error).strip() or type(error).__name__
                    print(f"minigluon: {part} not built: {text}; NumPy does this work")
                    self._forget("_core" if part == "native core" else "_onednn")
                    if part == "native core":
                        break

    def _forget(self, name: str) -> None:
        """An earlier build's product does not get into a wheel (in place it may stay)."""
        if not self.inplace:
            Path(self.get_ext_fullpath(f"minigluon.{name}")).unlink(missing_ok=True)

    def get_outputs(self) -> list[str]:
        return [self.get_ext_fullpath(extension.name) for extension in self.extensions]

    def get_output_mapping(self) -> dict[str, str]:
        return {}  # what is built for an editable installation lies in its place already

    def _build(self, extension: Extension) -> None:
        compiler = os.environ.get("CXX", "g++").split()
        flags = [*FLAGS, *os.environ.get("CXXFLAGS", "").split()]
        if SANITIZE:
            flags += [f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer", "-g", "-O1"]
        if "undefined" in SANITIZE:
            flags += ["-fno-sanitize=vptr", "-fno-sanitize-recover=undefined"]
        includes = [f"-I{folder}"
                    for folder in (*extension.include_dirs, sysconfig.get_paths()["include"])]
        # Kernels need nobody's headers, so a new place of Python's or NumPy's (each isolated
        # build has one) does not compile them again.
        folders = {True: ["-Isrc"], False: includes}
        jobs = [(Path(source), self._object(extension, source),
                 [*compiler, *flags, *folders[source.startswith("src/kernels/")]])
                for source in extension.sources]
        with ThreadPoolExecutor(self.parallel or os.cpu_count() or 1) as pool:
            for failure in [*pool.map(_compile, *zip(*jobs, strict=True))]:
                if failure:
                    raise RuntimeError(failure)
        objects = [str(target) for _, target, _ in jobs]
        link = [*compiler, "-shared", "-fopenmp", *objects, *extension.extra_link_args,
                f"-fsanitize={SANITIZE}" if SANITIZE else "-Wl,--gc-sections"]
        target = Path(self.get_ext_fullpath(extension.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        cached = self.folder / target.name
        if _stale(cached, objects, link):
            _call([*link, "-o", str(cached)])
            cached.with_suffix(".cmd").write_text(repr(link))
        if not target.exists() or target.read_bytes() != cached.read_bytes():
            # A new file under the old name: processes that run keep the one they have loaded.
            fresh = target.with_name(f"{target.name}.{os.getpid()}")
            fresh.write_bytes(cached.read_bytes())
            fresh.chmod(0o755)
            fresh.replace(target)

    def _object(self, extension: Extension, source: str) -> Path:
        place = source if not os.path.isabs(source) else f"nanobind/{Path(source).name}"
        return (self.folder / extension.name / place).with_suffix(".o")


def _compile(source: Path, target: Path, command: list[str]) -> str:
    """Make one object file if it is older than what it came from; what the compiler said."""
    command = [*command, *(NANOBIND_FLAGS if source.name == "nb_combined.cpp" else [])]
    command += ["-c", str(source)]
    depends = target.with_suffix(".d")
    if not _stale(target, _read_depends(depends) or [str(source)], command):
        return ""
    target.parent.mkdir(parents=True, exist_ok=True)
    began = source.stat().st_mtime if source.exists() else 0.0
    try:
        _call([*command, "-MMD", "-MF", str(depends), "-o", str(target)])
    except RuntimeError as error:
        target.unlink(missing_ok=True)
        return str(error)
    if source.stat().st_mtime != began:  # edited meanwhile: the next build takes it again
        os.utime(target, (0, 0))
    target.with_suffix(".cmd").write_text(repr(command))
    return ""


def _stale(target: Path, inputs: list[str], command: list[str]) -> bool:
    """Whether a product is missing, made by another command, or older than an input."""
    record = target.with_suffix(".cmd")
    if not target.exists() or not record.exists() or record.read_text() != repr(command):
        return True
    made = target.stat().st_mtime
    try:
        return any(os.stat(ROOT / name).st_mtime > made for name in inputs)
    except FileNotFoundError:
        return True


def _read_depends(path: Path) -> list[str]:
    """The files a compiler run has read, as it listed them for make."""
    if not path.exists():
        return []
    text = path.read_text().replace("\\\n", " ").partition(":")[2]
    return [name.replace("\0", " ") for name in text.replace("\\ ", "\0").split()]


def _call(command: list[str]) -> None:
    """Run a compiler; its messages are printed, its first error becomes ours."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.stderr and os.environ.get("MINIGLUON_BUILD_QUIET") is None:
        print(done.stderr, file=sys.stderr, end="")
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line]
        raise RuntimeError(lines[0] if lines else f"{command[0]} ended with {done.returncode}")


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """One build at a time in this checkout."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        fcntl: Any = importlib.import_module("fcntl")
    except ImportError:  # not on Windows, where nothing is built
        yield
        return
    with open(folder / "lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


setup(
    packages=[*find_packages(include=["minigluon", "minigluon.*"]), "minigluon_launch"],
    package_dir={"minigluon_launch": "tools/minigluon_launch"},
    package_data={"minigluon": ["py.typed", "gluon/data/vision/mnist-10k/*"]},
    include_package_data=False,
    # A placeholder makes setuptools treat the wheel as one with binaries; `core` and `onednn`
    # say what is really built.
    ext_modules=[] if os.environ.get("MINIGLUON_NATIVE", "1") == "0"
    else [Extension("minigluon._core", [])],
    cmdclass={"build_ext": BuildNative},
)
