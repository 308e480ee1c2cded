"""Where an operator runs: one core of a machine, how fast it computes, and how fast it reaches each level of memory."""

from __future__ import annotations

from functools import lru_cache

from targets.machine import Efficiency, Machine

__all__ = ["At", "at"]


class At:
    """A core while `active` cores of its machine work. Plain attributes: this is read in every prediction."""

    __slots__ = ("cycle", "efficiency", "far", "fma", "lanes", "latency", "levels", "load", "step", "store")

    def __init__(self, machine: Machine, core: int, active: int) -> None:
        own = machine.cores[core]
        self.cycle = 1e-9 / own.ghz  # seconds
        self.lanes = own.vector_bytes // 4  # floats of a vector
        self.fma = own.flops_per_cycle / (2 * self.lanes)  # vectors a cycle
        self.latency = own.fma_latency
        self.load = own.l1_gbps / own.ghz / own.vector_bytes  # vectors a cycle
        self.store = self.load / 2
        self.step = machine.step_seconds
        self.efficiency: Efficiency = own.efficiency
        sharing = max(1, min(active, own.l2_shared_by))
        l3 = min(own.l3_gbps, machine.l3_gbps / active)
        dram = min(own.dram_gbps, machine.dram_gbps / active)
        # Capacity in bytes and seconds a byte; a level that a core does not have is skipped.
        found = [(float(own.l1_bytes), 1e-9 / own.l1_gbps), (own.l2_bytes / sharing, 1e-9 / own.l2_gbps)]
        if machine.l3_bytes:
            found.append((machine.l3_bytes / active, 1e-9 / l3))
        self.levels = tuple(found)
        self.far = 1e-9 / dram

    def byte(self, distance: float) -> float:
        """Seconds to reach a byte that was last touched `distance` bytes ago.

        A cache of `size` bytes holds everything up to half its size ago, nothing beyond one and a half times: it does
        not forget exactly in order, and others use it too.
        """
        levels = self.levels
        for i, (size, here) in enumerate(levels):
            if distance < 1.5 * size:
                if distance <= 0.5 * size:
                    return here
                missing = distance / size - 0.5
                there = levels[i + 1][1] if i + 1 < len(levels) else self.far
                return here + (there - here) * missing
        return self.far


@lru_cache(maxsize=1024)
def at(machine: Machine, core: int, active: int) -> At:
    """The place `core` (a position in `machine.cores`) while `active` cores work."""
    return At(machine, core, active)
