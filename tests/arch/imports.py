"""Who may import whom: the rules of docs/architecture.md, and the functions that find what breaks them."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

__all__ = ["C_RULES", "PYTHON_RULES", "c_violations", "python_violations"]

ANYTHING = "*"


@dataclass(frozen=True, slots=True)
class PythonRule:
    """What Python files below `where` may import besides the standard library.

    `always` may be imported anywhere; `lazily` only inside functions, or for type checkers (who may see
    typing_extensions too). A name stands for itself and all that lies below it; one ending in "!" for itself only.
    """

    where: str
    always: tuple[str, ...]
    lazily: tuple[str, ...] = ()


# The first rule whose `where` the file's path starts with holds.
PYTHON_RULES = (
    PythonRule("edgert/cli/", ("typer", "rich", "edgert"), (ANYTHING,)),
    PythonRule("edgert/demo/", ("numpy", "edgert"), (ANYTHING,)),
    PythonRule("edgert/backend.py", ("numpy", "edgert", "onnx", "packer")),
    PythonRule("edgert/__main__.py", ("edgert.cli",)),
    PythonRule("edgert/", ("numpy", "edgert"), ()),
    PythonRule("packer/importers/", ("numpy", "packer", "targets.base", "edgert!", "edgert.errors", "onnx", "google")),
    PythonRule("packer/bundle/", ("numpy", "packer", "targets.base", "edgert!", "edgert.errors", "flatbuffers")),
    PythonRule("packer/planner/policy.py", ("numpy", "packer", "targets.base", "torch")),
    PythonRule("packer/ir/", ("numpy", "packer.ir", "edgert.errors")),
    PythonRule("packer/", ("numpy", "packer", "targets.base", "targets.machine", "edgert!", "edgert.errors")),
    PythonRule("targets/base.py", ("numpy", "packer.ir", "targets.machine")),
    PythonRule("targets/cuda/toolchain.py", ("targets.base", "targets.cuda"), ("cuda.bindings",)),
    PythonRule("targets/", ("numpy", "packer.ir", "targets.base", "targets.machine")),  # and its own family, see below
)

# Folders of runtime_c/src -> folders whose headers its files may include; the public headers are open to all.
C_RULES = {
    "base": {"base"},
    "platform": {"base", "platform"},
    "bundle": {"base", "platform", "bundle"},
    "kernels": {"base", "kernels"},
    "backends": {"base", "platform", "kernels", "backends"},
    "session": {"base", "platform", "bundle", "kernels", "backends", "session"},
}

_LIBC = re.compile(
    r"(assert|errno|fcntl|float|inttypes|limits|math|pthread|sched|signal|stdalign|stdarg|stdatomic|stdbool|stddef"
    r"|stdint|stdio|stdlib|string|time|unistd|dlfcn|cpuid|immintrin|arm_neon|features|malloc|getopt|dirent"
    r"|asm/hwcap|linux/futex|sys/(auxv|mman|platform/x86|random|resource|stat|syscall|time|types))\.h"
)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def python_violations(path: str, source: str) -> Iterator[str]:
    """One line for each import of the Python file at `path` (relative to the repository) that no rule allows."""
    rule = next((rule for rule in PYTHON_RULES if path.startswith(rule.where)), None)
    if rule is None:
        yield f"{path}: no rule for this place"
        return
    always = rule.always
    if rule.where == "targets/" and path.count("/") > 1:
        always += (".".join(path.split("/")[:2]),)
    for line, names, lazy in _imports(ast.parse(source), path):
        allowed = always + rule.lazily if lazy else always
        if not any(_allows(allowed, name) for name in names):
            yield f"{path}:{line}: may not import {names[0]}{'' if lazy else ' at import time'}"


def _allows(allowed: tuple[str, ...], name: str) -> bool:
    if name.split(".")[0] in sys.stdlib_module_names or ANYTHING in allowed:
        return True
    return any(name == a.rstrip("!") or (not a.endswith("!") and name.startswith(a + ".")) for a in allowed)


def _imports(tree: ast.AST, path: str) -> Iterator[tuple[int, list[str], bool]]:
    """(line, names it may be known by, whether it runs late) of every import; `from a import b` may mean a or a.b."""
    package = list(PurePosixPath(path).parent.parts)

    def visit(node: ast.AST, lazy: bool) -> Iterator[tuple[int, list[str], bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield child.lineno, [alias.name], lazy
            elif isinstance(child, ast.ImportFrom):
                base = [*package[: len(package) + 1 - child.level], child.module] if child.level else [child.module]
                module = ".".join(part for part in base if part)
                for alias in child.names:
                    yield child.lineno, [module, f"{module}.{alias.name}"], lazy
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                yield from (found for found in visit(child, True) if found[1][0] != "typing_extensions")
            else:
                yield from visit(child, lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    return visit(tree, False)


def c_violations(path: str, source: str) -> Iterator[str]:
    """One line for each include of the C file at `path` (relative to runtime_c) that no rule allows."""
    parts = PurePosixPath(path).parts
    if parts[0] != "src":
        allowed: set[str] = set()  # the public headers and the tools
    elif parts[1] in C_RULES:
        allowed = C_RULES[parts[1]]
    else:
        yield f"{path}: no rule for this place"
        return
    for match in _INCLUDE.finditer(source):
        line = source.count("\n", 0, match.start()) + 1
        quoted, system = match.groups()
        if system is not None and not _LIBC.fullmatch(system):
            yield f"{path}:{line}: <{system}> is neither libc nor libm"
        if quoted is None or quoted.startswith("edgert/") or "/" not in quoted:
            continue  # the public headers, or one of the file's own folder
        if quoted.split("/")[0] not in allowed:
            yield f'{path}:{line}: may not include "{quoted}"'
