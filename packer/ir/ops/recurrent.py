"""Recurrent layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from packer.ir.ops.base import Op
from packer.ir.ops.pointwise import ACTIVATION_KINDS, unary
from packer.ir.ops.shape import expect, expect_choice, expect_dtype, expect_length, expect_rank, expect_shape, operands
from packer.ir.types import DType, TensorType

__all__ = ["Recurrent"]

_GATES = {"rnn": 1, "gru": 3, "lstm": 4}
_FUNCTIONS = {"rnn": 1, "gru": 2, "lstm": 3}


@dataclass(frozen=True, slots=True)
class Recurrent(Op):
    """ONNX RNN, GRU and LSTM. Inputs as there: X [T,B,I], W, R, optional B, sequence_lens i32, initial_h, initial_c, P.

    Outputs: Y [T,D,B,H], Y_h [D,B,H] and for LSTM Y_c [D,B,H]; with `batch_major` (ONNX layout 1) X [B,T,I],
    Y [B,T,D,H] and states [B,D,H]. `activations` holds one kind a gate and direction (kinds of Unary, with alphas and
    betas). `clip` bounds what goes into the gates' activations, but not the cell on its way to the output (as
    onnxruntime); 0 is none. `input_forget` makes the forget gate 1 - input gate. Past the end of a sequence Y is 0 and
    the states stay.
    https://onnx.ai/onnx/operators/onnx__LSTM.html
    """

    kind: str  # "rnn", "gru", "lstm"
    direction: str  # "forward", "reverse", "bidirectional"
    hidden: int
    activations: tuple[str, ...]
    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    clip: float = 0.0
    linear_before_reset: bool = False
    input_forget: bool = False
    batch_major: bool = False

    def infer(self, inputs: Sequence[TensorType | None]) -> tuple[TensorType, ...]:
        expect_choice("kind", self.kind, _GATES)
        expect_choice("direction", self.direction, ("forward", "reverse", "bidirectional"))
        lstm = self.kind == "lstm"
        (x, w, r), optional = operands(inputs, 3, 5 if lstm else 3)
        bias, lengths, h, c, peephole = (*optional, None, None)[:5]
        expect_rank("X", x, 3)
        directions = 2 if self.direction == "bidirectional" else 1
        functions = directions * _FUNCTIONS[self.kind]
        for what, values in (("activations", self.activations), ("alphas", self.alphas), ("betas", self.betas)):
            expect_length(what, values, functions)
        for kind in self.activations:
            expect_choice("activation", kind, ACTIVATION_KINDS)
        batch, time = (x.shape[0], x.shape[1]) if self.batch_major else (x.shape[1], x.shape[0])
        rows = _GATES[self.kind] * self.hidden
        state = (batch, directions, self.hidden) if self.batch_major else (directions, batch, self.hidden)
        for what, type, shape in (
            ("X", x, x.shape),
            ("W", w, (directions, rows, x.shape[2])),
            ("R", r, (directions, rows, self.hidden)),
            ("B", bias, (directions, 2 * rows)),
            ("initial_h", h, state),
            ("initial_c", c, state),
            ("P", peephole, (directions, 3 * self.hidden)),
        ):
            if type is not None:
                expect_dtype(what, type, DType.F32)
                expect_shape(what, type, shape)
        if lengths is not None:
            expect_dtype("sequence_lens", lengths, DType.I32)
            expect_shape("sequence_lens", lengths, (batch,))
        expect(self.clip >= 0, "a clip of 0 or more", self.clip)
        shape = (batch, time, directions, self.hidden) if self.batch_major else (time, directions, batch, self.hidden)
        return (TensorType(DType.F32, shape), *(TensorType(DType.F32, state),) * (2 if lstm else 1))

    @np.errstate(all="ignore")
    def reference(
        self,
        x: np.ndarray,
        w: np.ndarray,
        r: np.ndarray,
        bias: np.ndarray | None = None,
        lengths: np.ndarray | None = None,
        h: np.ndarray | None = None,
        c: np.ndarray | None = None,
        peephole: np.ndarray | None = None,
    ) -> tuple[np.ndarray, ...]:
        if self.batch_major:
            x = x.swapaxes(0, 1)
            h, c = (None if state is None else state.swapaxes(0, 1) for state in (h, c))
        time, batch, _ = x.shape
        directions = w.shape[0]
        states = np.zeros((2, directions, batch, self.hidden), x.dtype)
        for state, initial in zip(states, (h, c), strict=True):
            if initial is not None:
                state[...] = initial
        lengths = np.full(batch, time) if lengths is None else np.clip(lengths, 0, time)
        y = np.zeros((time, directions, batch, self.hidden), x.dtype)
        for d in range(directions):
            wb, rb = np.zeros((2, w.shape[1]), x.dtype) if bias is None else np.split(bias[d], 2)
            drive = x @ w[d].T + wb
            peep = np.zeros((3, self.hidden), x.dtype) if peephole is None else peephole[d].reshape(3, self.hidden)
            for step in range(time):
                active = np.flatnonzero(step < lengths)
                backwards = self.direction == "reverse" or d == 1
                when = lengths[active] - 1 - step if backwards else np.full(active.size, step)
                old = states[:, d, active]
                states[:, d, active] = self._step(d, drive[when, active], old[0], old[1], r[d], rb, peep)
                y[when, d, active] = states[0, d, active]
        if self.batch_major:
            y, states = y.transpose(2, 0, 1, 3), states.swapaxes(1, 2)
        return (y, *states[: 2 if self.kind == "lstm" else 1])

    def _step(
        self, d: int, drive: np.ndarray, h: np.ndarray, c: np.ndarray, r: np.ndarray, rb: np.ndarray, peep: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """One time step: the next states from the input's part of the gates [B,gates H] and the states [B,H]."""
        gates = np.split(np.arange(r.shape[0]), _GATES[self.kind])

        def recur(gate: int, state: np.ndarray = h) -> np.ndarray:
            return np.asarray(state @ r[gates[gate]].T + rb[gates[gate]])

        parts = [drive[:, rows] for rows in gates]
        if self.kind == "rnn":
            return self._activate(d, 0, parts[0] + recur(0)), c
        if self.kind == "gru":
            update = self._activate(d, 0, parts[0] + recur(0))
            reset = self._activate(d, 0, parts[1] + recur(1))
            past = reset * recur(2) if self.linear_before_reset else recur(2, reset * h)
            return (1 - update) * self._activate(d, 1, parts[2] + past) + update * h, c
        write = self._activate(d, 0, parts[0] + recur(0) + peep[0] * c)
        forget = 1 - write if self.input_forget else self._activate(d, 0, parts[2] + recur(2) + peep[2] * c)
        cell = forget * c + write * self._activate(d, 1, parts[3] + recur(3))
        emit = self._activate(d, 0, parts[1] + recur(1) + peep[1] * cell)
        return emit * self._apply(d, 2, cell), cell

    def _activate(self, d: int, function: int, x: np.ndarray) -> np.ndarray:
        return self._apply(d, function, np.clip(x, -self.clip, self.clip) if self.clip else x)

    def _apply(self, d: int, function: int, x: np.ndarray) -> np.ndarray:
        i = d * _FUNCTIONS[self.kind] + function
        return unary(self.activations[i], x, self.alphas[i], self.betas[i])
