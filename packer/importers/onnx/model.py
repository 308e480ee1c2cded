"""An ONNX model, whole, into a graph of the IR."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx

from packer.errors import ModelError
from packer.importers.onnx import handlers as handlers
from packer.importers.onnx.builder import Builder, Tensor
from packer.importers.onnx.inputs import check_output, input_types
from packer.importers.onnx.load import load, opsets_of
from packer.importers.onnx.numeric import dtype_of
from packer.importers.onnx.tensors import Store
from packer.importers.onnx.walk import Scope, Walker
from packer.ir import Graph, TensorType

__all__ = ["import_onnx"]


def import_onnx(
    path_or_model: str | os.PathLike[str] | onnx.ModelProto,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
) -> Graph:
    """The model as a validated graph with static shapes, all constant parts folded.

    `shapes` gives inputs a shape (all of its dimensions); an unknown first dimension is 1 otherwise. `constants` gives
    inputs a value, which makes them no inputs any more. Inputs and outputs that are floats of another type (float16,
    bfloat16, float64) become float32. Raises UnsupportedOperators listing everything that cannot be
    packed, or ModelError for anything else that is wrong. https://onnx.ai/onnx/repo-docs/IR.html
    """
    model, folder = load(path_or_model)
    graph, pins = model.graph, dict(constants or {})
    stored = {tensor.name for tensor in graph.initializer} | {sparse.values.name for sparse in graph.sparse_initializer}
    inputs = [info for info in graph.input if info.name not in stored]
    for name in pins.keys() - {info.name for info in inputs}:
        known = ", ".join(info.name for info in inputs) or "no inputs"
        raise ModelError(f"there is no input '{name}' to give a value", expected=known, got=name)
    types = input_types(inputs, {**(shapes or {}), **{name: np.shape(value) for name, value in pins.items()}})
    for info in graph.output:
        check_output(info)

    builder = Builder(_names(graph))
    walker = Walker(builder, Store(folder), model.functions)
    scope = Scope(None, "", opsets_of(model.opset_import))
    walker.constants(scope, graph)
    for name, type in types.items():
        scope.define(
            name, builder.literal(name, _pinned(name, pins[name], type)) if name in pins else builder.input(name, type)
        )
    nodes = _in_order(graph.node)
    try:
        walker.run(scope, nodes, _needed(graph, nodes))
    except ModelError:
        walker.raise_unsupported()
        raise
    walker.raise_unsupported()
    results = _results(scope, graph)
    return builder.finish(graph.name or "model", results)


def _in_order(nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """The nodes, each behind those whose outputs it reads, and else as they are: some converters append some at the
    end. What is in a circle comes last."""
    makers = {name: position for position, node in enumerate(nodes) for name in node.output if name}
    sources = [{makers[name] for name in _read(node) if name in makers} for node in nodes]
    readers: list[list[int]] = [[] for _ in nodes]
    for position, before in enumerate(sources):
        for source in before:
            readers[source].append(position)
    left = [len(before) for before in sources]
    ready = [position for position, count in enumerate(left) if count == 0]  # sorted, so a heap
    order: list[int] = []
    while ready:
        order.append(heapq.heappop(ready))
        for reader in readers[order[-1]]:
            left[reader] -= 1
            if left[reader] == 0:
                heapq.heappush(ready, reader)
    return [nodes[position] for position in (*order, *(k for k, count in enumerate(left) if count))]


def _needed(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto]) -> set[int]:
    """Positions of the nodes that contribute to an output: what else is in a model cannot make it unfit."""
    makers: dict[str, int] = {}
    for position, node in enumerate(nodes):
        for name in filter(None, node.output):
            if makers.setdefault(name, position) != position:
                raise ModelError(
                    "the model is not well formed",
                    where=f"tensor '{name}'",
                    expected="one node that makes it",
                    got="two",
                    hint="check the model with onnx.checker.check_model",
                )
    needed: set[int] = set()
    waiting = [info.name for info in graph.output]
    while waiting:
        name = waiting.pop()
        if name in makers and makers[name] not in needed:
            needed.add(makers[name])
            waiting.extend(_read(nodes[makers[name]]))
    return needed


def _read(node: onnx.NodeProto) -> Iterator[str]:
    """Every name that a node may read, those inside its subgraphs included."""
    nodes = [node]
    while nodes:
        node = nodes.pop()
        yield from node.input
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                nodes.extend(body.node)
                yield from (info.name for info in body.output)


def _names(graph: onnx.GraphProto) -> set[str]:
    """Every name the top graph gives to a tensor."""
    names = {info.name for info in (*graph.input, *graph.output)}
    names.update(tensor.name for tensor in graph.initializer)
    names.update(sparse.values.name for sparse in graph.sparse_initializer)
    for node in graph.node:
        names.update(node.output)
    return names


def _pinned(name: str, value: np.ndarray, type: TensorType) -> np.ndarray:
    value, given = np.asarray(value), dtype_of(np.asarray(value))
    if given is not None and given.is_float and type.dtype.is_float:
        value = value.astype(np.float32)
    if value.dtype != type.dtype.numpy:
        raise ModelError(
            f"the value given for input '{name}' has another element type",
            expected=type.dtype.numpy.name,
            got=value.dtype.name,
        )
    return np.array(value)


def _results(scope: Scope, graph: onnx.GraphProto) -> dict[str, Tensor]:
    results: dict[str, Tensor] = {}
    for info in graph.output:
        try:
            tensor = scope.find(info.name)
        except KeyError:
            raise ModelError(
                f"output '{info.name}' is never computed", hint="check the model with onnx.checker.check_model"
            ) from None
        assert tensor is not None, "unsupported nodes were reported before"
        if info.name in results:
            raise ModelError(f"output '{info.name}' is listed twice", expected="distinct outputs")
        results[info.name] = tensor
    return results
