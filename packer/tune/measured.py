"""What is known of a device by measurements, as the planner takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from packer.ir import Graph
from packer.planner.costs import Signature
from packer.tune.records import Records
from targets.base import Target
from targets.machine import Machine

__all__ = ["Measured", "weights_from"]


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """The calibrated machine of a device, if there is one, and measured seconds: by where weights come from, then by
    signature."""

    machine: Machine | None
    seconds: Mapping[str, Mapping[Signature, float]]

    @staticmethod
    def load(records: Records, device: str, core: str) -> Measured:
        """What a record file knows of a device; raises RecordsError, and MachineError if its machine is no longer
        readable."""
        text = records.machine(device, core)
        machine = None if text is None else Machine.parse(text, f"{records.path}, calibrated machine")
        return Measured(machine, records.seconds(device, core))

    def on(self, target: Target) -> Target:
        """The target on this device."""
        return target if self.machine is None else target.on(self.machine)

    def of(self, graph: Graph, target: Target) -> Mapping[Signature, float]:
        """The records that hold in a network on `target`."""
        return self.seconds.get(weights_from(graph, target.machine), {})


def weights_from(graph: Graph, machine: Machine) -> str:
    """Where a step finds its weights in every run but the first: "l2", "l3" or "memory", the nearest that holds all
    that one run touches."""
    touched = sum(value.type.bytes for value in graph.values.values())
    if touched <= machine.private_cache(0):
        return "l2"
    return "l3" if touched <= machine.l3_bytes else "memory"
