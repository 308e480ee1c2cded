"""The tensors of a program while it is made: values in buffers, views of them, constants; at the end, a place for
each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from packer.bundle.model import Place, Tensor
from packer.ir import Box, TensorType, extents_of, whole
from packer.planner.bands import Bands
from packer.planner.memory import ALIGN, Arena, Buffer, place
from targets.base import Layout, stored_bytes

__all__ = ["Tensors"]

DEVICE_ALIGN = 256  # bytes: a line of a device's cache, and more
PLANES_ALIGN = 16  # between planes with a halo
_NO_BUFFER = -1
_NONE: Mapping[int, TensorType] = MappingProxyType({})


@dataclass(slots=True)
class _Buffer:
    """Memory that one or more tensors live in, one after the other or under several shapes."""

    bytes: int
    place: Place
    index: int
    planes: tuple[int, ...] = ()  # bytes of a plane with its halo, and the halo: shares memory with its like only
    core: int = -1  # that alone writes there, if any


class Tensors:
    """All tensors by id, and the buffer of each (-1 for constants)."""

    def __init__(self) -> None:
        self.all: list[Tensor] = []
        self.buffer_of: list[int] = []
        self.buffers: list[_Buffer] = []
        self._within: dict[int, int] = {}  # offset of a tensor in its buffer, if not 0
        self._found: dict[tuple[str, Layout, tuple[int, ...]], int] = {}  # tensors that hold a value
        self._constants: dict[tuple[object, ...], int] = {}
        self._views: dict[tuple[int, Box], int] = {}
        self._names: dict[int, set[str]] = {}  # of the values in a buffer
        self._bands: dict[int, Bands] = {}  # of values in bands, by the number of the first core's
        self._of_cores: dict[int, dict[int, int]] = {}  # and the number of each core's

    def add(
        self,
        name: str,
        type: TensorType,
        layout: Layout,
        where: Place,
        index: int = 0,
        buffer: int | None = None,
        halo: tuple[int, ...] = (),
    ) -> int:
        """A new tensor that holds `name`, in a new buffer unless it shares one."""
        number = self._append(Tensor(name, type, layout, where, index, halo=halo), buffer)
        return self._holds(number, name, layout, type.shape)

    def alias(self, name: str, type: TensorType, held: int) -> int:
        """The elements of a tensor under another shape and name."""
        tensor = self.all[held]
        return self.add(name, type, tensor.layout, tensor.place, tensor.index, self.buffer_of[held])

    def add_spaced(self, name: str, type: TensorType, wider: TensorType, buffer: int | None = None) -> int:
        """A new planar tensor that holds `name` at the origin of one of a wider type."""
        number = self._spaced(Tensor(name, wider, Layout.PLANAR, Place.ARENA), type, buffer)
        return self._holds(number, name, Layout.PLANAR, type.shape)

    def add_bands(
        self,
        name: str,
        type: TensorType,
        bands: Bands,
        over: int | None = None,
        wider: Mapping[int, TensorType] = _NONE,
    ) -> int:
        """New tensors that hold `name` in bands, in new buffers unless those take the place of the bands of a value;
        the first stands for all. `wider`: types of what some lie at the origin of."""
        numbers = {}
        for core in bands.rows:
            own = bands.type(type, core)
            tensor = Tensor(bands.name(name, core), wider.get(core, own), Layout.PLANAR, Place.ARENA)
            buffer = None if over is None else self.buffer_of[self._of_cores[over][core]]
            numbers[core] = self._spaced(tensor, own, buffer, core)
        return self._holds_bands(numbers, name, type.shape, bands)

    def bands(self, number: int) -> Bands | None:
        """The bands that a value is in whose tensors this one stands for."""
        return self._bands.get(number)

    def types(self, number: int) -> list[tuple[TensorType, TensorType]]:
        """Of the tensor of a value, or of those of all cores: its type, and that of what it lies in, if anything."""
        own = [self.all[each] for each in self._of_cores.get(number, {0: number}).values()]
        return [(t.type, t.type if t.root < 0 else self.all[t.root].type) for t in own]

    def private(self, name: str, type: TensorType, layout: Layout, wider: TensorType) -> int:
        """A tensor that only one core uses for a while, at the origin of a wider one; place_private gives it a
        buffer."""
        return self._spaced(Tensor(name, wider, layout, Place.ARENA), type, _NO_BUFFER)

    def place_private(self, lives: Sequence[tuple[int, int, int]]) -> None:
        """Put private tensors of one core, each with its first and last step, together in one new buffer."""
        roots = [tensor if self.all[tensor].root < 0 else self.all[tensor].root for tensor, _, _ in lives]
        sizes = [stored_bytes(self.all[root].type, self.all[root].layout) for root in roots]
        arena = place([Buffer(size, a, b) for size, (_, a, b) in zip(sizes, lives, strict=True)])
        buffer = len(self.buffers)
        self.buffers.append(_Buffer(arena.bytes, Place.ARENA, 0))
        for (tensor, _, _), root, offset in zip(lives, roots, arena.offsets, strict=True):
            for number in (tensor, root):
                self.buffer_of[number] = buffer
                self._within[number] = offset

    def constant(self, name: str, type: TensorType, layout: Layout, data: np.ndarray) -> int:
        key = (data.tobytes() if data.nbytes <= 64 else id(data), type, layout)
        if key not in self._constants:
            self._constants[key] = len(self.all)
            self.all.append(Tensor(name, type, layout, Place.SEGMENT, data=data))
            self.buffer_of.append(_NO_BUFFER)
        return self._constants[key]

    def view(self, held: int, box: Box, core: int) -> int:
        """The box of a value, as a tensor: in bands, where `core` has it."""
        bands = self._bands.get(held)
        return self._box(held, box) if bands is None else self._box(self._of_cores[held][core], bands.within(box, core))

    def _box(self, held: int, box: Box, name: str = "") -> int:
        """The box of a tensor, as a tensor of that name; the tensor itself if that is all of it."""
        outer = self.all[held]
        type = TensorType(outer.type.dtype, extents_of(box))
        if type == outer.type:
            return held
        root = held
        if outer.root >= 0:  # views are of roots
            root = outer.root
            box = tuple((at + begin, at + end) for (at, _), (begin, end) in zip(outer.within, box, strict=True))
        if (root, box) not in self._views:
            name = name or outer.name
            tensor = Tensor(name, type, outer.layout, outer.place, outer.index, root=root, within=box, halo=outer.halo)
            self._views[root, box] = self._append(tensor, self.buffer_of[root])
        return self._views[root, box]

    def inside(self, name: str, held: int, box: Box) -> int:
        """A tensor that holds `name`, in a box of the tensor that holds another value; in its bands, if any."""
        bands, shape = self._bands.get(held), extents_of(box)
        if bands is None:
            return self._holds(self._box(held, box, name), name, self.all[held].layout, shape)
        numbers = {
            core: self._box(number, bands.through(box, core), bands.name(name, core))
            for core, number in self._of_cores[held].items()
        }
        return self._holds_bands(numbers, name, shape, bands)

    def holding(self, name: str, layout: Layout, type: TensorType) -> int | None:
        """The tensor that holds a value in that layout and shape."""
        return self._found.get((name, layout, type.shape))

    def names_in(self, buffer: int) -> set[str]:
        """The values that lie or lay in a buffer."""
        return self._names.get(buffer, set())

    def placed(
        self, lives: Mapping[int, tuple[int, int]], extents: Mapping[int, tuple[int, int]]
    ) -> tuple[tuple[Tensor, ...], Arena, int]:
        """The tensors with their final places, given the first and last step that each buffer is used in; and the bytes
        of device memory."""
        numbers = [i for i, b in enumerate(self.buffers) if b.place is Place.ARENA and i in lives]
        arena = place([Buffer(self.buffers[i].bytes, *lives[i], self.buffers[i].core) for i in numbers])
        offsets = dict(zip(numbers, arena.offsets, strict=True))
        on_device, device_bytes = self._on_device(lives)
        offsets.update(on_device)
        tensors = []
        for number, tensor in enumerate(self.all):
            buffer = self.buffer_of[number]
            if buffer >= 0:
                own = self.buffers[buffer]
                offset = offsets.get(buffer, 0) + self._within.get(number, 0)
                tensor = replace(tensor, place=own.place, index=own.index, offset=offset, extent=extents.get(number))
            tensors.append(tensor)
        return tuple(tensors), arena, device_bytes

    def _on_device(self, lives: Mapping[int, tuple[int, int]]) -> tuple[dict[int, int], int]:
        """Offsets of the buffers in device memory, and its size. Halos stay zero because planes lie only where planes
        of the same size and halo have lain: each kind in a part of its own."""
        kinds: dict[tuple[int, ...], list[int]] = {}
        for i, buffer in enumerate(self.buffers):
            if buffer.place is Place.DEVICE and i in lives:
                kinds.setdefault(buffer.planes, []).append(i)
        offsets: dict[int, int] = {}
        end = 0
        for planes, numbers in kinds.items():
            unit = math.lcm(planes[0], PLANES_ALIGN) if planes else DEVICE_ALIGN
            counts = [-(-self.buffers[i].bytes // unit) for i in numbers]
            own = place([Buffer(count * ALIGN, *lives[i]) for count, i in zip(counts, numbers, strict=True)])
            begin = -(-end // DEVICE_ALIGN) * DEVICE_ALIGN
            offsets.update((i, begin + at // ALIGN * unit) for i, at in zip(numbers, own.offsets, strict=True))
            end = begin + own.bytes // ALIGN * unit
        return offsets, end

    def _holds(self, number: int, name: str, layout: Layout, shape: tuple[int, ...]) -> int:
        self._found[name, layout, shape] = number
        self._names.setdefault(self.buffer_of[number], set()).add(name)
        return number

    def _holds_bands(self, numbers: Mapping[int, int], name: str, shape: tuple[int, ...], bands: Bands) -> int:
        for number in numbers.values():
            self._holds(number, name, Layout.PLANAR, shape)
        first = self._found[name, Layout.PLANAR, shape] = next(iter(numbers.values()))
        self._bands[first], self._of_cores[first] = bands, dict(numbers)
        return first

    def _spaced(self, tensor: Tensor, type: TensorType, buffer: int | None, core: int = -1) -> int:
        """A new tensor's part of this type at its origin, as a tensor; the new one itself if that is all of it."""
        name = tensor.name
        if tensor.type != type:
            tensor = replace(tensor, name=f"{name}:spaced")
        return self._box(self._append(tensor, buffer, core), whole(type), name)

    def _append(self, tensor: Tensor, buffer: int | None, core: int = -1) -> int:
        if buffer is None:
            buffer = len(self.buffers)
            size = stored_bytes(tensor.type, tensor.layout, tensor.halo)
            images, channels = (*tensor.type.shape, 1, 1)[:2]
            planes = (size // max(images * channels, 1), *tensor.halo) if tensor.halo else ()
            self.buffers.append(_Buffer(size, tensor.place, tensor.index, planes, core))
        self.all.append(tensor)
        self.buffer_of.append(buffer)
        return len(self.all) - 1
