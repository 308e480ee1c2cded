"""The typed intermediate representation: types, operators, graph, validator."""

from packer.ir.graph import Extent, Graph, Node, Value
from packer.ir.types import DType, TensorType

__all__ = ["DType", "Extent", "Graph", "Node", "TensorType", "Value"]
