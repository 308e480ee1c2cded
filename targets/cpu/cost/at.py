"""Where an operator runs: one core of a machine, how fast it computes, and how fast it reaches each level of memory."""

from __future__ import annotations

from functools import lru_cache

from targets.machine import Efficiency, Machine

__all__ = ["At", "at"]

_START = (0.0, 0.0, 1.5e-7, 5e-7)  # seconds until data streams from the first cache, the second, the third, and memory


class At:
    """A core while `active` cores of its machine work. Plain attributes: every prediction reads them."""

    __slots__ = (
        "bf16",
        "code",
        "cycle",
        "efficiency",
        "far",
        "fma",
        "i8",
        "lanes",
        "latency",
        "levels",
        "load",
        "step",
        "store",
    )

    def __init__(self, machine: Machine, core: int, active: int) -> None:
        own = machine.cores[core]
        self.cycle = 1e-9 / own.ghz  # seconds
        self.lanes = own.vector_bytes // 4  # floats of a vector
        self.fma = own.flops_per_cycle / (2 * self.lanes)  # vectors a cycle
        self.bf16 = own.bf16_speed  # products for each of float32
        self.i8 = own.i8_speed
        self.code = own.code_speed
        self.latency = own.fma_latency  # cycles
        self.load = own.l1_gbps / own.ghz / own.vector_bytes  # vectors a cycle
        self.store = self.load / 2
        self.step = machine.step_seconds
        self.efficiency: Efficiency = own.efficiency
        # Of each cache: bytes it holds for this core, seconds a byte, seconds to start. The first one costs nothing
        # beyond the instructions that load and store.
        found = [(float(own.l1_bytes), 0.0, 0.0)]
        found.append((own.l2_bytes / max(1, min(active, own.l2_shared_by)), 1e-9 / own.l2_gbps, _START[1]))
        if machine.l3_bytes:
            found.append((machine.l3_bytes / active, 1e-9 / min(own.l3_gbps, machine.l3_gbps / active), _START[2]))
        self.levels = tuple(found)
        self.far = (1e-9 / min(own.dram_gbps, machine.dram_gbps / active), _START[3])

    def reach(self, distance: float) -> tuple[float, float]:
        """Seconds a byte, and seconds to start, of data that was last touched `distance` bytes ago.

        A cache holds everything up to half its size ago and nothing beyond one and a half times: it does not forget
        exactly in order, and others use it too.
        """
        levels = self.levels
        for i, (size, byte, start) in enumerate(levels):
            if distance < 1.5 * size:
                missing = distance / size - 0.5
                if missing <= 0:
                    return byte, start
                _, there, later = levels[i + 1] if i + 1 < len(levels) else (0.0, *self.far)
                return byte + (there - byte) * missing, start + (later - start) * missing
        return self.far

    def moved(self, bytes: float, distance: float) -> float:
        """Seconds to reach so many bytes in a row."""
        byte, start = self.reach(distance)
        return bytes * byte + start


@lru_cache(maxsize=1024)
def at(machine: Machine, core: int, active: int) -> At:
    """The place `core` (a position in `machine.cores`) while `active` cores work."""
    return At(machine, core, active)
