"""The import rules hold, and the checker would notice if they did not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.arch.imports import c_violations, python_violations

ROOT = Path(__file__).resolve().parents[2]


def test_python_files_follow_the_rules() -> None:
    files = [p for folder in ("edgert", "packer", "targets") for p in (ROOT / folder).rglob("*.py")]
    assert len(files) > 20
    found = [line for p in sorted(files) for line in python_violations(p.relative_to(ROOT).as_posix(), p.read_text())]
    assert not found, "\n".join(found)


def test_c_files_follow_the_rules() -> None:
    runtime = ROOT / "runtime_c"
    files = [p for folder in ("include", "src", "tools") for p in (runtime / folder).rglob("*.[ch]")]
    assert len(files) > 5
    found = [line for p in sorted(files) for line in c_violations(p.relative_to(runtime).as_posix(), p.read_text())]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("path", "source", "allowed"),
    [
        ("edgert/session.py", "import numpy", True),
        ("edgert/session.py", "def f():\n  import onnx", False),
        ("edgert/session.py", "from packer.ir import Graph", False),
        ("edgert/session.py", "if TYPE_CHECKING:\n  from typing_extensions import Buffer", True),
        ("edgert/session.py", "from typing_extensions import Buffer", False),
        ("edgert/session.py", "if TYPE_CHECKING:\n  import onnx", False),
        ("edgert/cli/pack.py", "def f():\n  from packer.api import pack", True),
        ("edgert/cli/pack.py", "from packer.api import pack", False),
        ("edgert/cli/pack.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n  import numpy", True),
        ("packer/passes/fold.py", "import onnx", False),
        ("packer/importers/onnx.py", "import onnx.helper", True),
        ("packer/importers/onnx.py", "import flatbuffers", False),
        ("packer/bundle/encode.py", "import flatbuffers", True),
        ("packer/planner/plan.py", "from targets import base", True),
        ("packer/planner/plan.py", "from targets import cpu", False),
        ("packer/planner/plan.py", "import edgert", True),
        ("packer/planner/plan.py", "from edgert.session import Session", False),
        ("packer/ir/graph.py", "from ..passes import fold", False),
        ("targets/cpu/lower.py", "from .packing import weights", True),
        ("targets/cpu/lower.py", "from targets.cuda import kernels", False),
        ("targets/cpu/lower.py", "from packer.planner import plan", False),
        ("elsewhere/x.py", "import os", False),
    ],
)
def test_python_checker(path: str, source: str, allowed: bool) -> None:
    assert (not list(python_violations(path, source))) is allowed


@pytest.mark.parametrize(
    ("path", "source", "allowed"),
    [
        ("src/kernels/conv.c", '#include "base/kernel.h"\n#include <math.h>\n#include "kernels/simd/simd.h"', True),
        ("src/kernels/conv.c", '#include "session/session.h"', False),
        ("src/base/sha256.c", '#include "bundle/reader.h"', False),
        ("src/base/sha256.c", "#include <openssl/sha.h>", False),
        ("src/bundle/open.c", '#  include "base/bytes.h"', True),
        ("include/edgert/edgert.h", '#include "edgert/errors.def"', True),
        ("include/edgert/edgert.h", '#include "base/kernel.h"', False),
        ("tools/run.c", '#include "edgert/edgert.h"\n#include "network.h"', True),
        ("tools/run.c", '#include "session/session.h"', False),
        ("src/elsewhere/x.c", "", False),
    ],
)
def test_c_checker(path: str, source: str, allowed: bool) -> None:
    assert (not list(c_violations(path, source))) is allowed
