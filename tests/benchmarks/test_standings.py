"""Speed-ups, means and the guard on made-up times."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from benchmarks.layers import crossover
from benchmarks.picture import draw
from benchmarks.standings import Case, Row, best_peer, show, slower, speedups_of

DENSE: Case = ("resnet50", 0, 1)
HALF: Case = ("resnet50", 50, 1)
SPARSE: Case = ("resnet50", 90, 1)


def rows() -> list[Row]:
    times = {
        DENSE: {"edgert": 50.0, "onnxruntime": 75.0, "openvino-bf16": 37.5, "edgert-bf16": 30.0, "ncnn": 60.0},
        HALF: {"edgert": 40.0, "edgert-dense": 50.0, "onnxruntime": 75.0},
        SPARSE: {"edgert": 10.0, "onnxruntime": 75.0, "deepsparse": 25.0},
    }
    found = [Row(*case, engine, ms=ms, floor_ms=5.0) for case, own in times.items() for engine, ms in own.items()]
    return [*found, Row(*SPARSE, "ncnn", ms=1.0, failed="wrong outputs")]


def test_speedups_are_over_onnxruntime_and_leave_out_what_failed() -> None:
    found = speedups_of(rows())
    assert found[DENSE] == {"edgert": 1.5, "onnxruntime": 1.0, "openvino-bf16": 2.0, "edgert-bf16": 2.5, "ncnn": 1.25}
    assert found[SPARSE] == {"edgert": 7.5, "onnxruntime": 1.0, "deepsparse": 3.0}


def test_a_case_without_onnxruntime_has_no_speedups() -> None:
    assert speedups_of([row for row in rows() if row.case == SPARSE and row.engine != "onnxruntime"]) == {}


def test_the_best_peer_computes_in_float32() -> None:
    found = speedups_of(rows())
    assert best_peer(found[DENSE]) == ("ncnn", 1.25)
    assert best_peer(found[SPARSE]) == ("deepsparse", 3.0)
    assert best_peer(found[HALF]) == ("onnxruntime", 1.0), "ours without zeros is no peer"


def test_the_guard_names_what_lost_more_than_the_tolerance() -> None:
    then = {DENSE: 1.5, SPARSE: 7.5}
    assert slower({DENSE: 1.36, SPARSE: 7.6}, then, 0.1) == {}
    assert slower({DENSE: 1.5, SPARSE: 6.0}, then, 0.1) == {SPARSE: pytest.approx(0.8)}
    assert slower({("alexnet", 0, 1): 0.1}, then, 0.1) == {}, "what was never measured cannot be slower"


def test_the_tables_tell_ratios_the_floor_and_failures(capsys: pytest.CaptureFixture[str]) -> None:
    show(rows())
    printed = capsys.readouterr().out
    assert "geometric mean of our speed over (networks): best peer 2.50" in printed
    assert "50%" in printed, "5 of 10 ms are the floor"
    assert "50 % zeros, 1 thread: speed over that without: resnet50 1.25" in printed
    assert "bf16 over OpenVINO's, 1 thread: resnet50 0 % 1.25; geometric mean 1.25" in printed
    assert "resnet50 90 %, 1 thread: without ncnn: wrong outputs" in printed


def test_the_picture_has_a_mark_for_each_engine_that_counts() -> None:
    picture = ElementTree.fromstring(draw(speedups_of(rows())))
    titles = [title.text for title in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert sorted(title for title in titles if title) == [
        "deepsparse: 3.00x",
        "edgert-bf16: 2.50x",
        "edgert: 1.50x",
        "edgert: 1.88x",
        "edgert: 7.50x",
        "ncnn: 1.25x",
        "onnxruntime: 1.00x",
        "onnxruntime: 1.00x",
        "onnxruntime: 1.00x",
        "openvino-bf16: 2.00x",
    ]


def test_crossover() -> None:
    assert crossover([(90, 0.3), (0, 2.0), (50, 0.5)]) == pytest.approx(100 / 3)
    assert crossover([(0, 0.9), (50, 0.5)]) == 0
    assert crossover([(0, 3.0), (50, 1.5)]) is None
