"""From a graph and a target to a program: choose forms, emit steps, place tensors."""

from __future__ import annotations

from packer.bundle.model import Program
from packer.ir import Graph
from packer.planner.schedule import schedule
from packer.planner.select import select_forms
from targets.base import Target

__all__ = ["plan"]


def plan(graph: Graph, target: Target, implementation: str | None = None) -> Program:
    """The cheapest program for `graph` on `target`, with `implementation` wherever a node offers it."""
    return schedule(graph, target, select_forms(graph, target, implementation))
