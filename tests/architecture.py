"""Who may import whom, checked by reading the imports. ``python tests/architecture.py`` prints the
rooms' sizes and what is wrong; `test_architecture.py` fails on the latter.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = "minigluon"
ROOT = Path(__file__).resolve().parents[1] / PACKAGE

LEVELS = (
    {"base", "context", "name", "attribute", "files", "nest", "npmode", "elsewhere"},
    {"ops", "device", "codec"},
    {"dispatch"},
    {"graph", "tape"},
    {"ndarray"},
    {"symbol", "autograd", "random", "dataiter", "runtime"},
    {"numpy"},
    {
        "initializer", "lr_scheduler", "optimizer", "metric", "io", "image", "recordio",
        "checkpoint", "callback", "engine", "error", "executor", "executor_manager", "libinfo",
        "library", "log", "monitor",
        "operator", "profiler",
        "registry", "util", "visualization",
    },
    {"nn", "kvstore"},
    {"gluon", "module", "rnn"},
    {"contrib", "model", "numpy_extension", "test_utils", "testdata"},
    {"as_mxnet", "info", "numpy_foreign"},
)  # fmt: skip
SIDEWAYS = {("optimizer", "lr_scheduler"), ("io", "image"), ("io", "recordio")}
SIDEWAYS |= {("image", "recordio"), ("test_utils", "testdata")}
SIDEWAYS |= {("autograd", "symbol"), ("callback", "checkpoint")}
SIDEWAYS |= {("nest", "base"), ("name", "base"), ("attribute", "base"), ("context", "base")}
SIDEWAYS |= {("files", "base"), ("npmode", "base")}

# Third-party packages, and the only places that may name them (a folder ends with a slash).
GUESTS = {
    "numpy": ("",),
    "scipy": ("ndarray/stored.py",),
    "tqdm": ("gluon/", "contrib/", "callback.py"),
    "cloudpickle": ("kvstore/dist/", "optimizer/"),
    "graphviz": ("visualization.py",),
    "mxboard": ("contrib/tensorboard.py",),
    "zmq": ("kvstore/dist/transport.py",),
    "cupy": ("device/gpu/", "kvstore/collective/nccl.py"),
    "mpi4py": ("kvstore/collective/mpi.py",),
    "horovod": ("kvstore/collective/horovod.py",),
    "byteps": ("kvstore/collective/byteps.py",),
    "requests": ("gluon/utils.py",),
    "PIL": ("codec.py",),
    "cv2": ("codec.py",),
}
# The only places that may load one of our own modules by name at run time: the distributed store
# when it is asked for (zmq), a device at its first use (cupy), rarely used rooms, and what
# `import mxnet` asks for.
LAZY = ("__init__.py", "kvstore/__init__.py", "device/__init__.py", "as_mxnet.py",
        "elsewhere.py", "gluon/__init__.py", "gluon/contrib/__init__.py")
# The compiled parts, and the one file that may load them.
NATIVE = ("_core", "_onednn")
NATIVE_DOOR = "device/cpu/native.py"
# Where networks and key-value stores meet.
MEETING = "gluon/trainer.py"


@dataclass
class Import:
    """One import of a module."""

    target: str
    line: int
    names: tuple[str, ...] = ()
    in_function: bool = False
    for_types: bool = False


@dataclass
class Module:
    """One file of the package."""

    name: str
    file: str
    tree: ast.Module
    imports: list[Import] = field(default_factory=list)

    @property
    def room(self) -> str:
        """The top-level room it belongs to; empty for the package's own ``__init__``."""
        return self.name.split(".")[1] if "." in self.name else ""

    @property
    def is_package(self) -> bool:
        """Whether it is a folder's ``__init__``."""
        return self.file.endswith("__init__.py")

    @property
    def is_door(self) -> bool:
        """Whether other rooms look here first: a folder's ``__init__``, or a room of one file."""
        return self.is_package or "/" not in self.file

    @property
    def exported(self) -> list[str] | None:
        """What ``__all__`` says; None where there is none or it is computed."""
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                try:
                    return list(ast.literal_eval(node.value))
                except ValueError:
                    return None
        return None


def read(root: Path) -> dict[str, Module]:
    """All modules below `root`, with their imports resolved to module names."""
    modules: dict[str, Module] = {}
    for path in sorted(root.rglob("*.py")):
        parts = [PACKAGE, *path.relative_to(root).with_suffix("").parts]
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        modules[name] = Module(name, path.relative_to(root).as_posix(), tree)
    for module in modules.values():
        module.imports = list(_imports(module, module.tree, modules))
    return modules


def _imports(
    module: Module,
    node: ast.AST,
    known: dict[str, Module],
    inside: bool = False,
    types: bool = False,
) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, (), inside, types)
        elif isinstance(child, ast.ImportFrom):
            base = _absolute(module, child)
            plain = []
            for alias in child.names:
                if f"{base}.{alias.name}" in known:
                    yield Import(f"{base}.{alias.name}", child.lineno, (), inside, types)
                else:
                    plain.append(alias.name)
            if plain:
                yield Import(base, child.lineno, tuple(plain), inside, types)
        else:
            deeper = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            checked = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            yield from _imports(module, child, known, inside or deeper, types or checked)


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    up = node.level - (1 if module.is_package else 0)
    base = parts[: len(parts) - up]
    return ".".join([*base, node.module] if node.module else base)


def _level(room: str) -> int | None:
    return next((level for level, rooms in enumerate(LEVELS) if room in rooms), None)


def _own(target: str) -> bool:
    return target == PACKAGE or target.startswith(PACKAGE + ".")


def _room_of(target: str) -> str:
    return (target + ".").split(".")[1]


def problems(root: Path = ROOT) -> list[str]:
    """Everything that breaks the rules, one sentence each."""
    modules = read(root)
    found: list[str] = []
    for module in modules.values():
        if module.room and _level(module.room) is None:
            found.append(f"{module.file}: room '{module.room}' has no level")
        for item in module.imports:
            check = _check_own if _own(item.target) else _check_guest
            texts = [*check(module, item), *_through_the_door(module, item, modules)]
            found += [f"{module.file}:{item.line}: {text}" for text in texts]
        found += _by_name(module)
        found += _exports(module)
        found += _meeting(module)
    return found + _cycles(modules)


def _check_own(module: Module, item: Import) -> Iterator[str]:
    room = _room_of(item.target)
    if item.in_function:
        yield f"imports {item.target} inside a function"
    if room in NATIVE and module.file != NATIVE_DOOR:
        yield f"imports {item.target}; only {NATIVE_DOOR} may"
        return
    if not module.room:
        return  # the package's own __init__ gathers everything
    if not room:
        yield f"imports the whole package ({', '.join(item.names) or item.target})"
        return
    if room == module.room:
        return
    here, there = _level(module.room), _level(room)
    if here is None or there is None:
        return
    if there > here:
        yield f"upward import of {item.target} (level {there}) from level {here}"
    elif there == here and (module.room, room) not in SIDEWAYS:
        yield f"sideways import of {item.target}"


def _through_the_door(module: Module, item: Import, known: dict[str, Module]) -> Iterator[str]:
    """Other rooms take only what the file they take it from names in ``__all__``."""
    target = known.get(item.target)
    if target is None or not module.room or target.room in ("", module.room):
        return
    exported = target.exported
    for word in item.names:
        if word.startswith("_") or (exported is not None and word not in exported):
            yield f"takes {word} from {target.file}, whose __all__ does not offer it"


def _check_guest(module: Module, item: Import) -> Iterator[str]:
    name = item.target.split(".")[0]
    if name in sys.stdlib_module_names or (item.for_types and name == "typing_extensions"):
        return
    if name not in GUESTS:
        yield f"imports {item.target}, which is no dependency of {PACKAGE}"
    elif not any(module.file.startswith(place) for place in GUESTS[name]):
        yield f"imports {item.target}; only {', '.join(GUESTS[name])} may"


def _by_name(module: Module) -> Iterator[str]:
    """Calls of import_module and __import__: for guests, else in few places, which say why."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        if ast.unparse(node.func).rpartition(".")[2] not in ("import_module", "__import__"):
            continue
        first = node.args[0] if node.args else None
        name = first.value if isinstance(first, ast.Constant) else ""
        if isinstance(name, str) and name.split(".")[0] in GUESTS:
            for text in _check_guest(module, Import(name, node.lineno)):
                yield f"{module.file}:{node.lineno}: {text}"
        elif module.file not in LAZY:
            yield f"{module.file}:{node.lineno}: loads a module by name"


def _exports(module: Module) -> Iterator[str]:
    """``__all__`` names what is defined; at a door every public class and function is in it."""
    exported = module.exported
    defined: set[str] = set()
    public: set[str] = set()
    star = False
    for node in module.tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            defined.add(node.name)
            # An operator's body enters the registry; its Python name is nobody's business.
            if not any("operator(" in ast.unparse(each) for each in node.decorator_list):
                public.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            star = star or any(alias.name == "*" for alias in node.names)
            defined |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        else:
            defined |= {
                each.id
                for each in ast.walk(node)
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
            }
    if exported is None:
        # A computed one is checked against the living module by test_import.
        if "__all__" not in defined and module.is_door and defined - {"annotations"}:
            yield f"{module.file}: no __all__"
        return
    if star:
        yield f"{module.file}: import * hides what is defined"
    submodules = {item.target.rpartition(".")[2] for item in module.imports if _own(item.target)}
    for name in sorted(set(exported) - defined - submodules):
        if not module.is_package or "__getattr__" not in defined:
            yield f"{module.file}: __all__ names '{name}', which is not defined"
    for name in sorted(public - set(exported)):
        if module.is_door and not name.startswith("_"):
            yield f"{module.file}: '{name}' is public and not in __all__"
    if len(set(exported)) != len(exported):
        yield f"{module.file}: __all__ names something twice"


def _meeting(module: Module) -> Iterator[str]:
    rooms = {_room_of(item.target) for item in module.imports if _own(item.target)}
    if module.room and {"nn", "kvstore"} <= rooms and module.file != MEETING:
        yield f"{module.file}: nn and kvstore meet outside {MEETING}"


def _cycles(modules: dict[str, Module]) -> list[str]:
    """Import cycles among modules, each told once. Imports for type checkers do not count."""
    edges = {
        name: {
            item.target
            for item in module.imports
            if item.target in modules and item.target != name and not item.for_types
        }
        for name, module in modules.items()
    }
    found: list[str] = []
    done: set[str] = set()
    path: list[str] = []

    def visit(name: str) -> None:
        if name in path:
            cycle = path[path.index(name) :]
            found.append("import cycle: " + " -> ".join([*cycle, name]))
            return
        if name in done:
            return
        path.append(name)
        for target in sorted(edges[name]):
            visit(target)
        path.pop()
        done.add(name)

    for name in sorted(edges):
        visit(name)
    return found


def sizes(root: Path = ROOT) -> list[tuple[str, int, int]]:
    """(room, files, lines), largest first."""
    totals: dict[str, tuple[int, int]] = {}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).parts
        room = parts[0] if len(parts) > 1 else path.stem
        files, lines = totals.get(room, (0, 0))
        totals[room] = files + 1, lines + len(path.read_text(encoding="utf-8").splitlines())
    return sorted(((room, *count) for room, count in totals.items()), key=lambda row: -row[2])


if __name__ == "__main__":
    for room, files, lines in sizes():
        print(f"{lines:6d} lines {files:3d} files  {room}")
    wrong = problems()
    print("\n".join(wrong) or "the architecture holds")
    sys.exit(bool(wrong))
