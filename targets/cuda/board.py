"""Boards: what the CUDA target knows of a GPU and of the machine that it is in. Each is a TOML file in boards/."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BOARDS", "Board"]


@dataclass(frozen=True, slots=True)
class Board:
    """A GPU; bandwidths in GB/s (1e9 bytes a second), times in seconds, sizes in bytes.

    `cpu` is the CPU target that runs what the GPU cannot; `lanes` are multiply-adds of float32 a cycle and
    multiprocessor. Code comes at `code_bytes_per_cycle` to each multiprocessor; what is larger than `code_bytes` comes
    again for blocks that are not in step, at `code_bytes_per_cycle_again`.
    `shared_bytes` are those of a multiprocessor, `l2_bytes_per_cycle` what it gets from the second-level cache,
    `memory_cycles` the latency of device memory, `dual_issue` the share of loads and stores that a scheduler issues
    beside a multiply-add.
    """

    name: str
    aliases: tuple[str, ...]
    description: str
    arch: str
    sm: int
    cpu: str
    multiprocessors: int
    ghz: float
    lanes: int
    gbps: float
    l2_bytes: int
    l2_bytes_per_cycle: float
    shared_bytes: int
    memory_cycles: int
    dual_issue: float
    code_bytes: int
    code_bytes_per_cycle: float
    code_bytes_per_cycle_again: float
    launch_seconds: float
    wait_seconds: float

    @property
    def issue(self) -> float:
        """Instructions of a thread that all multiprocessors together execute in a second."""
        return self.multiprocessors * self.lanes * self.ghz * 1e9

    @property
    def device(self) -> str:
        """How compilers and bundles name the GPU."""
        return f"sm_{self.sm}"


def _load(path: Path) -> Board:
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return Board(**{**table, "aliases": tuple(table["aliases"])})


BOARDS: dict[str, Board] = {
    board.name: board for board in map(_load, sorted((Path(__file__).parent / "boards").glob("*.toml")))
}
