"""Trains the demo's network: learn digits, prune nine weights in ten while learning on, write ONNX.

    python -m edgert.demo.train

needs numpy, scikit-learn and onnx, takes about a minute, and rewrites digits.onnx beside this file. It is seeded:
a second run on the same machine gives the same file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgert.demo.digits import load_digits

__all__ = ["MODEL", "Network", "export", "train"]

MODEL = Path(__file__).with_name("digits.onnx")

Array = npt.NDArray[np.floating[Any]]

# Layers in order: name, shape of the weights, share of them that ends as zeros.
_LAYERS = (
    ("conv1", (16, 1, 3, 3), 0.50),
    ("conv2", (32, 16, 3, 3), 0.88),
    ("conv3", (32, 32, 3, 3), 0.92),
    ("classifier", (10, 128), 0.80),
)
_POOLED = ("conv2", "conv3")  # convolutions followed by a 2x2 max pooling

_DENSE_EPOCHS = 20  # before the first weight goes
_PRUNING_EPOCHS = 40  # while the share of zeros grows
_FINAL_EPOCHS = 40  # with the zeros fixed
_BATCH = 32
_RATE = 0.05
_MOMENTUM = 0.9
_DECAY = 1e-4


class Network:
    """Three 3x3 convolutions, two poolings and a linear layer; forward, backward and masked SGD with momentum.

    Images are [n,1,8,8]; `forward` gives logits [n,10]. Weights where `masks` is zero are zero and stay so.
    """

    def __init__(self, seed: int = 1) -> None:
        random = np.random.RandomState(seed)
        self.weights: dict[str, Array] = {}
        self.biases: dict[str, Array] = {}
        for name, shape, _ in _LAYERS:
            spread = np.sqrt(2.0 / np.prod(shape[1:]))
            self.weights[name] = (random.standard_normal(shape) * spread).astype(np.float32)
            self.biases[name] = np.zeros(shape[0], np.float32)
        self.masks = {name: np.ones_like(w) for name, w in self.weights.items()}
        self._speed = {key: np.zeros_like(p) for key, p in self._parameters().items()}

    def _parameters(self) -> dict[tuple[str, str], Array]:
        weights = {(name, "weight"): w for name, w in self.weights.items()}
        return weights | {(name, "bias"): b for name, b in self.biases.items()}

    def forward(self, images: Array) -> tuple[Array, list[tuple[Array, ...]]]:
        """Logits [n,10], and what each layer keeps for `gradients`."""
        kept: list[tuple[Array, ...]] = []
        x = images
        for name, _, _ in _LAYERS[:-1]:
            columns = _columns(x)
            weight = self.weights[name]
            y = columns @ weight.reshape(len(weight), -1).T + self.biases[name]
            y = np.maximum(y.transpose(0, 3, 1, 2), 0)
            x, winners = _max_pool(y) if name in _POOLED else (y, y)
            kept.append((columns, y, winners))
        flat = x.reshape(len(x), -1)
        kept.append((flat,))
        return flat @ self.weights["classifier"].T + self.biases["classifier"], kept

    def gradients(self, images: Array, labels: npt.NDArray[np.int64]) -> tuple[float, dict[tuple[str, str], Array]]:
        """Mean cross-entropy over the batch, and its gradient by every parameter."""
        logits, kept = self.forward(images)
        error = _softmax(logits)
        picked = error[np.arange(len(labels)), labels]
        loss = float(-np.log(np.maximum(picked, 1e-12)).mean())
        error[np.arange(len(labels)), labels] -= 1
        error /= len(labels)

        found = {("classifier", "weight"): error.T @ kept[-1][0], ("classifier", "bias"): error.sum(0)}
        flow: Array = error @ self.weights["classifier"]
        for (name, shape, _), (columns, y, winners) in reversed(list(zip(_LAYERS[:-1], kept[:-1], strict=True))):
            if name in _POOLED:
                pooled = flow.reshape(*y.shape[:2], y.shape[2] // 2, y.shape[3] // 2)
                flow = winners * pooled.repeat(2, axis=2).repeat(2, axis=3)
            flow = flow.reshape(y.shape) * (y > 0)
            rows = flow.transpose(0, 2, 3, 1)
            flat = rows.reshape(-1, shape[0])
            found[name, "weight"] = (flat.T @ columns.reshape(len(flat), -1)).reshape(shape)
            found[name, "bias"] = flat.sum(0)
            flow = _scatter(rows @ self.weights[name].reshape(shape[0], -1), shape[1])
        return loss, found

    def step(self, images: Array, labels: npt.NDArray[np.int64], rate: float) -> float:
        """One step of SGD; returns the batch's loss before it."""
        loss, found = self.gradients(images, labels)
        for key, parameter in self._parameters().items():
            speed = self._speed[key]
            speed *= _MOMENTUM
            speed -= rate * (found[key] + (_DECAY * parameter if key[1] == "weight" else 0))
            parameter += speed
            if key[1] == "weight":
                parameter *= self.masks[key[0]]
        return loss

    def prune(self, progress: float) -> None:
        """Zero the smallest weights of each layer: `progress` (0..1) of the way to its final share of zeros.

        The share grows as 1 - (1 - progress)^3: fast while there is much to take. https://arxiv.org/abs/1710.01878
        """
        for name, shape, final in _LAYERS:
            zeros = round(np.prod(shape) * final * (1 - (1 - progress) ** 3))
            ranks = np.abs(self.weights[name]).argsort(axis=None, kind="stable").argsort(kind="stable")
            self.masks[name] = (ranks >= zeros).reshape(shape).astype(np.float32)
            self.weights[name] *= self.masks[name]


def _columns(x: Array) -> Array:
    """The 3x3 neighbourhoods of each pixel, zero-padded: [n,c,h,w] -> [n,h,w,9c]."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    n, _, h, w = x.shape
    return np.ascontiguousarray(windows.transpose(0, 2, 3, 1, 4, 5)).reshape(n, h, w, -1)


def _scatter(columns: Array, channels: int) -> Array:
    """The transpose of `_columns`: every pixel sums what its neighbourhoods hold of it."""
    n, h, w, _ = columns.shape
    windows = columns.reshape(n, h, w, channels, 3, 3).transpose(0, 3, 4, 5, 1, 2)
    padded = np.zeros((n, channels, h + 2, w + 2), columns.dtype)
    for row in range(3):
        for column in range(3):
            padded[:, :, row : row + h, column : column + w] += windows[:, :, row, column]
    return padded[:, :, 1:-1, 1:-1]


def _max_pool(y: Array) -> tuple[Array, Array]:
    """2x2 max pooling, and each pixel's share of its window's maximum (shared by ties), which routes the gradient."""
    n, c, h, w = y.shape
    pooled = y.reshape(n, c, h // 2, 2, w // 2, 2).max(axis=(3, 5))
    winners = (y == pooled.repeat(2, axis=2).repeat(2, axis=3)).astype(np.float32)
    ties = winners.reshape(n, c, h // 2, 2, w // 2, 2).sum(axis=(3, 5))
    return pooled, winners / ties.repeat(2, axis=2).repeat(2, axis=3)


def _softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: Array = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _shifted(images: Array, random: np.random.RandomState) -> Array:
    """Every image moved by up to one pixel in each direction: more digits to learn from."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moves = random.randint(0, 3, (len(images), 2))
    return np.stack([p[:, y : y + 8, x : x + 8] for p, (y, x) in zip(padded, moves, strict=True)])


def train(images: Array, labels: npt.NDArray[np.int64], *, log: bool = False) -> Network:
    """A network learnt from `images` and `labels`, pruned to the shares of zeros of its layers."""
    network, random = Network(), np.random.RandomState(2)
    epochs = _DENSE_EPOCHS + _PRUNING_EPOCHS + _FINAL_EPOCHS
    for epoch in range(epochs):
        rate = _RATE * 0.5 * (1 + np.cos(np.pi * epoch / epochs))
        pruned = (epoch - _DENSE_EPOCHS + 1) / _PRUNING_EPOCHS
        if 0 < pruned <= 1:
            network.prune(pruned)
        order = random.permutation(len(labels))
        losses = []
        for begin in range(0, len(order), _BATCH):
            batch = order[begin : begin + _BATCH]
            losses.append(network.step(_shifted(images[batch], random), labels[batch], rate))
        if log and (epoch + 1) % 10 == 0:
            print(f"epoch {epoch + 1:3}/{epochs}  loss {np.mean(losses):.4f}  zeros {_zeros(network):.1%}")
    return network


def _zeros(network: Network) -> float:
    return 1 - sum(map(np.count_nonzero, network.weights.values())) / sum(w.size for w in network.weights.values())


def export(network: Network, path: Path) -> None:
    """Write the network as ONNX: image [1,1,8,8] -> probabilities [1,10]."""
    from onnx import TensorProto, checker, helper, numpy_helper, save

    nodes, x = [], "image"
    for name, _, _ in _LAYERS[:-1]:
        operands = [x, f"{name}.weight", f"{name}.bias"]
        nodes.append(helper.make_node("Conv", operands, [name], name=name, kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [name], [x := f"{name}.relu"], name=x))
        if name in _POOLED:
            pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
            nodes.append(helper.make_node("MaxPool", [x], [x := f"{name}.pool"], name=x, **pool))
    nodes.append(helper.make_node("Flatten", [x], ["features"], name="flatten"))
    operands = ["features", "classifier.weight", "classifier.bias"]
    nodes.append(helper.make_node("Gemm", operands, ["logits"], name="classifier", transB=1))
    nodes.append(helper.make_node("Softmax", ["logits"], ["probabilities"], name="softmax", axis=1))
    constants = [numpy_helper.from_array(network.weights[n], f"{n}.weight") for n, _, _ in _LAYERS]
    constants += [numpy_helper.from_array(network.biases[n], f"{n}.bias") for n, _, _ in _LAYERS]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, 10])],
        constants,
        doc_string="Pruned network for 8x8 handwritten digits, trained by edgert/demo/train.py",
    )
    model = helper.make_model(
        graph, producer_name="edgert.demo", opset_imports=[helper.make_opsetid("", 13)], ir_version=8
    )
    checker.check_model(model)
    save(model, path)


def main() -> int:
    """Train, report accuracy on the held-out digits, write the model."""
    digits = load_digits()
    network = train(digits.train_images, digits.train_labels, log=True)
    logits, _ = network.forward(digits.test_images)
    accuracy = float((logits.argmax(axis=1) == digits.test_labels).mean())
    export(network, MODEL)
    print(f"held-out accuracy {accuracy:.2%}, zeros {_zeros(network):.1%}, {MODEL.stat().st_size:,} bytes in {MODEL}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
