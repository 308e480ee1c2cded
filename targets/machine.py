"""What the cost model knows of a machine: its cores, their caches and bandwidths, and what it costs to work together.

A machine is a TOML file, in machines/ or anywhere. Bandwidths are in GB/s (1e9 bytes a second), sizes in bytes, times
in seconds, clocks in GHz, everything else without a unit.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any

__all__ = ["Core", "Efficiency", "Machine", "MachineError"]

_FOLDER = Path(__file__).parent / "machines"


class MachineError(ValueError):
    """A description of a machine that cannot be used; the message says what, where, expected and got."""


@dataclass(frozen=True, slots=True)
class Efficiency:
    """How fast each family of kernels is, as against what the model makes of a core's peaks, when all data is in its
    caches."""

    dense: float  # products with packed weights: convolution, matrix products
    sparse: float  # products that go along streams of weights other than zero
    unrolled: float  # products whose weights become instructions
    depthwise: float
    pool: float
    elementwise: float
    reduce: float
    softmax: float
    move: float  # whatever only moves elements: copies, transposes, layout changes, concatenation
    scalar: float  # kernels that go element by element
    winograd: float = 1.0  # Winograd's convolution: its transforms, and products of few channels at a time


@dataclass(frozen=True, slots=True)
class Core:
    """One core. Bandwidths are what it reaches alone, reading; a cache shared by several cores counts whole."""

    kind: str
    ghz: float
    flops_per_cycle: float  # float32, a multiply-add being two
    fma_latency: float  # cycles
    vector_bytes: int  # of the registers that the kernels use: 64, 32 or 16
    l1_bytes: int
    l2_bytes: int
    l2_shared_by: int  # cores
    l1_gbps: float
    l2_gbps: float
    l3_gbps: float
    dram_gbps: float
    efficiency: Efficiency
    bf16_speed: float = 1.0  # products of bf16 that take as long as one of float32
    i8_speed: float = 1.0  # and of bytes
    code_speed: float = 1.0  # how fast instructions are made and first run, as against Zen 4

    @property
    def gflops(self) -> float:
        """Float32 GFLOP/s that dense products reach."""
        return self.ghz * self.flops_per_cycle * self.efficiency.dense


@dataclass(frozen=True, slots=True, eq=False)
class Machine:
    """Cores, fastest first, and what they share. A machine without a third cache has `l3_bytes` 0.

    Compared by identity, so that it is a cheap key; `to_toml` compares what machines are.
    """

    name: str
    description: str
    cores: tuple[Core, ...]
    l3_bytes: int
    l3_gbps: float  # all cores together
    dram_gbps: float  # all cores together
    step_seconds: float  # to start one kernel
    barrier_seconds: float  # of cores waiting for each other, and
    barrier_seconds_per_core: float
    transfer_seconds: float  # until data of one core arrives at another, and
    transfer_gbps: float

    @staticmethod
    def load(source: str | Path) -> Machine:
        """The machine in the file `source`, or the known machine of that name; raises MachineError."""
        path = _FOLDER / f"{source}.toml"
        if isinstance(source, Path) or str(source).endswith(".toml"):
            path = Path(source)
            path = path if path.exists() else _FOLDER / path.name
        if not path.is_file():
            known = ", ".join(sorted(p.stem for p in _FOLDER.glob("*.toml")))
            raise MachineError(f"unknown machine '{source}': expected a TOML file or one of {known}")
        return Machine.parse(path.read_text(encoding="utf-8"), str(source))

    @staticmethod
    def parse(text: str, where: str) -> Machine:
        """The machine a TOML text describes; `where` is how messages name it."""
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise MachineError(f"{where}: not TOML: {error}") from error
        groups = table.pop("cores", None)
        if not isinstance(groups, list) or not groups or not all(isinstance(g, dict) for g in groups):
            raise MachineError(f"{where}: expected one or more [[cores]] tables, got {groups!r}")
        cores: list[Core] = []
        for number, group in enumerate(groups, 1):
            place = f"{where}, cores {number}"
            count = _number(group.pop("count", None), "int", f"{place}: count")
            efficiency = group.pop("efficiency", None)
            if not isinstance(efficiency, dict):
                raise MachineError(f"{place}: expected a table 'efficiency', got {efficiency!r}")
            parts = Efficiency(**_read(Efficiency, efficiency, f"{place}, efficiency"))
            core = Core(**_read(Core, group, place, efficiency=parts))
            if core.vector_bytes not in (16, 32, 64):
                raise MachineError(f"{place}: vector_bytes: expected 16, 32 or 64, got {core.vector_bytes}")
            cores.extend([core] * int(count))
        cores.sort(key=lambda core: -core.gflops)
        return Machine(**_read(Machine, table, where, cores=tuple(cores)))

    def to_toml(self) -> str:
        """The text that `parse` reads back as this machine."""
        lines = [f"{f.name} = {_toml(getattr(self, f.name))}" for f in fields(self) if f.name != "cores"]
        for core in dict.fromkeys(self.cores):
            lines += ["", "[[cores]]", f"count = {self.cores.count(core)}"]
            lines += [f"{f.name} = {_toml(getattr(core, f.name))}" for f in fields(core) if f.name != "efficiency"]
            lines += ["", "[cores.efficiency]"]
            lines += [f"{f.name} = {_toml(getattr(core.efficiency, f.name))}" for f in fields(core.efficiency)]
        return "\n".join(lines) + "\n"

    def speed(self, core: int) -> float:
        """Speed of a core, the fastest 1.0."""
        return self.cores[core].gflops / self.cores[0].gflops

    def barrier(self, count: int) -> float:
        """Seconds until `count` cores have waited for each other."""
        return self.barrier_seconds + self.barrier_seconds_per_core * count if count > 1 else 0.0

    def private_cache(self, core: int) -> int:
        """Bytes of the last cache that a core has to itself, or its share."""
        return self.cores[core].l2_bytes // self.cores[core].l2_shared_by

    def speeds(self, count: int) -> tuple[float, ...]:
        """Speeds of the first `count` cores, the fastest 1.0."""
        return tuple(core.gflops / self.cores[0].gflops for core in self.sized(count).cores)

    def sized(self, count: int) -> Machine:
        """This machine with `count` cores: its fastest ones, or more of its last kind."""
        if count < 1:
            raise MachineError(f"cores of {self.name}: expected 1 or more, got {count}")
        return replace(self, cores=(*self.cores, *[self.cores[-1]] * count)[:count])


def _read(kind: type, table: Mapping[str, Any], where: str, **given: object) -> dict[str, Any]:
    """The fields of the dataclass `kind` out of a table that has exactly those that are not `given`; those with a
    default may be absent."""
    left = (field for field in fields(kind) if field.name not in given)
    wanted = {field.name: str(field.type) for field in left if field.name in table or field.default is MISSING}
    _same_keys(wanted, table, where)
    found = dict(given)
    for name, type in wanted.items():
        value = table[name]
        if type != "str":
            value = _number(value, type, f"{where}: {name}", zero=name == "l3_bytes")
        elif not isinstance(value, str):
            raise MachineError(f"{where}: {name}: expected text, got {value!r}")
        found[name] = value
    return found


def _same_keys(wanted: Iterable[str], got: Iterable[str], where: str) -> None:
    wanted, got = set(wanted), set(got)
    if got - wanted:
        raise MachineError(f"{where}: unknown key '{min(got - wanted)}'; expected {', '.join(sorted(wanted))}")
    if wanted - got:
        raise MachineError(f"{where}: missing key '{min(wanted - got)}'")


def _number(value: object, type: str, where: str, zero: bool = False) -> float:
    """A positive number (or 0 where that is allowed), whole if the type is "int"."""
    expected = ("a whole number" if type == "int" else "a number") + (" of 0 or more" if zero else " above 0")
    if isinstance(value, bool) or not isinstance(value, int if type == "int" else int | float):
        raise MachineError(f"{where}: expected {expected}, got {value!r}")
    if not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        raise MachineError(f"{where}: expected {expected}, got {value!r}")
    return value if type == "int" else float(value)


def _toml(value: object) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)
