"""The strategy `policy`: plans drawn from a recurrent network with attention that learns from how fast they ran.

After Zhang & Zhi's operator splitting for multi-core processors (2019): the network sees features of every node and
its choices, and gives for node after node a chance to each choice that goes with those drawn before. Every round the
drawn plans are timed, and the chances of those faster than the round's mean rise (REINFORCE, Williams 1992).
Needs PyTorch, and therefore is imported only where it is used.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from packer.bundle.model import Program
from packer.ir import Graph, Node
from packer.planner.features import choice_features, node_features, possible
from packer.planner.pbqp import Solution
from packer.planner.problem import IMPOSSIBLE, Problem
from packer.planner.schedule import schedule
from targets.base import Form, Lowered, Target

__all__ = ["Measure", "Policy"]

PLANS = 8  # drawn in a round
ROUNDS = 120  # where the cost model stands for the device
_WIDTH = 64  # of everything that is learned
_RATE = 0.01  # of learning
_CURIOSITY = 0.003  # what a nat of entropy is worth beside a standard deviation of time
_DEAREST = 6.0  # powers of two: choices this much dearer than the cheapest are all alike

Measure = Callable[[Sequence[Program]], Sequence[float] | None]
"""Seconds of one run of each program; None if this machine cannot run them."""

_Plan = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """Searches until `measure` has taken `budget` seconds, `rounds` rounds at most, and gives the fastest plan it saw.

    Without a device to measure on, predicted times stand for measured ones, for ROUNDS rounds unless told otherwise.
    The same times give the same plan for a `seed`.
    """

    measure: Measure | None = None
    budget: float = math.inf
    rounds: int | None = None
    seed: int = 0

    def __call__(self, problem: Problem) -> Solution:
        if not problem.choices:
            return Solution((), 0.0, False)
        judge = _Judge(problem, self.measure)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # others would wait for work beside the measurements
        try:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self.seed)
                self._learn(_Network(problem), judge)
        finally:
            torch.set_num_threads(threads)
        best = judge.best()
        return Solution(best, problem.seconds(best), False)

    def _learn(self, network: _Network, judge: _Judge) -> None:
        optimizer = torch.optim.Adam(network.parameters(), _RATE)
        done = 0
        while done == 0 or (judge.spent < self.budget and done < (self.rounds or judge.rounds)):
            plans, chances, entropy = network.draw(PLANS)
            gain = -torch.log(torch.tensor(judge.seconds(plans)).clamp(min=1e-9))
            gain = (gain - gain.mean()) / (gain.std() + 1e-6)
            loss = -(gain * chances).mean() - _CURIOSITY * entropy
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            done += 1


class _Judge:
    """Times plans, and keeps what it found; `spent` is how long that took, in seconds."""

    def __init__(self, problem: Problem, measure: Measure | None) -> None:
        self.problem, self.measure = problem, measure
        self.target = cast(Target, _Once(problem.costs.target))
        self.times: dict[_Plan, list[float]] = {}
        self.spent = 0.0

    @property
    def rounds(self) -> float:
        """How many are worth while."""
        return ROUNDS if self.measure is None else math.inf

    def seconds(self, plans: Sequence[_Plan]) -> list[float]:
        """Of each plan; those that are the same are measured once."""
        distinct = list(dict.fromkeys(plans))
        found = self._measured(distinct) or [self.problem.seconds(plan) for plan in distinct]
        for plan, seconds in zip(distinct, found, strict=True):
            self.times.setdefault(plan, []).append(seconds)
        return [self.times[plan][-1] for plan in plans]

    def best(self) -> _Plan:
        """The plan of the least time; the best ones are timed again, so that none wins by luck."""
        last = sorted(self.times, key=lambda plan: statistics.median(self.times[plan]))[:PLANS]
        seconds = self.seconds(last)
        return last[seconds.index(min(seconds))]

    def _measured(self, plans: Sequence[_Plan]) -> Sequence[float] | None:
        if self.measure is None:
            return None
        began = time.monotonic()
        found = self.measure([self._program(plan) for plan in plans])
        self.spent += time.monotonic() - began
        if found is None:
            self.measure = None
        return found

    def _program(self, plan: _Plan) -> Program:
        problem = self.problem
        choices = [alternatives[i] for alternatives, i in zip(problem.choices, plan, strict=True)]
        return schedule(problem.graph, self.target, choices, problem.cores)


class _Once:
    """A target that lowers a node in a form once: packed weights are most of the work to make a program."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.lowered: dict[tuple[str, Form], Lowered] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.target, name)

    def lower(self, graph: Graph, node: Node, form: Form) -> Lowered:
        key = (node.outputs[0], form)
        if key not in self.lowered:
            self.lowered[key] = self.target.lower(graph, node, form)
        return self.lowered[key]


class _Network(nn.Module):  # type: ignore[misc]  # PyTorch is optional, mypy does without
    """Reads the nodes in execution order, both ways; then, node by node, scores the choices by what was read, where
    attention looks, and what was drawn so far."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.prices = _Prices(problem)
        self.nodes = torch.from_numpy(node_features(problem))
        self.features = [torch.from_numpy(rows) for rows in choice_features(problem)]
        self.read = nn.GRU(self.nodes.shape[1], _WIDTH // 2, bidirectional=True)
        self.embed = nn.Linear(self.features[0].shape[1], _WIDTH)
        self.price = nn.Linear(1, _WIDTH)
        self.follow = nn.GRUCell(2 * _WIDTH, _WIDTH)
        self.look = nn.Linear(_WIDTH, _WIDTH, bias=False)
        self.ask = nn.Linear(3 * _WIDTH, _WIDTH)
        self.score = nn.Linear(_WIDTH, 1, bias=False)

    def draw(self, count: int) -> tuple[list[_Plan], Tensor, Tensor]:
        """`count` plans, the logarithm of the chance of each [count], and the mean entropy of a plan in nats."""
        read, _ = self.read(self.nodes)
        state = before = torch.zeros(count, _WIDTH)
        chances, entropy = torch.zeros(count), torch.zeros(())
        drawn = np.zeros((count, 0), int)
        for v, features in enumerate(self.features):
            own = read[v].expand(count, -1)
            state = self.follow(torch.cat([own, before], 1), state)
            seen = torch.softmax(self.look(state) @ read.T / _WIDTH**0.5, 1) @ read
            ask = self.ask(torch.cat([own, state, seen], 1))
            choices = self.embed(features)
            prices, allowed = self.prices.of(v, drawn)
            scores = self.score(torch.tanh(ask[:, None] + choices + self.price(prices[:, :, None])))[:, :, 0]
            logs = torch.log_softmax(scores.masked_fill(~allowed, -1e9), 1)
            taken = torch.multinomial(logs.detach().exp(), 1)
            chances = chances + logs.gather(1, taken)[:, 0]
            entropy = entropy - (logs.exp() * logs).sum(1).mean()
            before = choices[taken[:, 0]]
            drawn = np.hstack([drawn, taken.numpy()])
        return [tuple(map(int, row)) for row in drawn], chances, entropy


class _Prices:
    """What each choice of a node adds to the predicted time of plans that are decided up to it."""

    def __init__(self, problem: Problem) -> None:
        self.own = [np.where(mask, own, IMPOSSIBLE) for own, mask in zip(problem.own, possible(problem), strict=True)]
        self.into: list[list[tuple[int, np.ndarray]]] = [[] for _ in problem.own]
        for (u, v), matrix in problem.edges.items():
            self.into[v].append((u, matrix))

    def of(self, v: int, drawn: np.ndarray) -> tuple[Tensor, Tensor]:
        """For plans [count, v]: powers of two of each choice of node v above the cheapest; and whether it goes with
        those drawn; both [count, choices]."""
        total = self.own[v] + sum((matrix[drawn[:, u]] for u, matrix in self.into[v]), np.zeros((len(drawn), 1)))
        above = np.log2((total + 1e-7) / (total.min(axis=1, keepdims=True) + 1e-7))
        return torch.from_numpy(np.minimum(above, _DEAREST).astype(np.float32)), torch.from_numpy(total < IMPOSSIBLE)
