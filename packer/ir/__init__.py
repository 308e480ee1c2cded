"""The typed intermediate representation: types, operators, graph, validator."""

from packer.ir.graph import Extent, Graph, Node, Value
from packer.ir.types import SINGLE, Block, Box, DType, TensorType, extents_of, whole

__all__ = ["SINGLE", "Block", "Box", "DType", "Extent", "Graph", "Node", "TensorType", "Value", "extents_of", "whole"]
