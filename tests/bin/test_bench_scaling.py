"""The benchmark of scaling: its formula, what it makes of measurements, and a run with tiny sizes."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path
from typing import Any

import bench_scaling
import pytest
from scaling_bench.projection import Network, Process, all_reduce_seconds, project, ring_gbits
from scaling_bench.report import Results
from scaling_bench.turns import Contestant, Step, Task, Turn, combine, take_turn

from deepspeech_training.errors import UserError

TINY = ['--n_hidden', '8', '--batch', '1', '--frames', '20', '--steps', '2', '--warmup', '1', '--repeats', '1']
TASK = Task('noise.csv', n_hidden=8, batch=3, steps=2, warmup=1, lstm='auto')


def test_seconds_of_a_ring() -> None:
    """1 GB at 8 Gbit/s take a second; four processes send 1.5 times as much, in 6 messages a tensor."""
    network = Network(gbits=8, latency_us=1000)
    assert all_reduce_seconds(1, 10**9, 12, network) == 0
    assert all_reduce_seconds(2, 10**9, 1, network) == pytest.approx(1.0 + 2 * 0.001)
    assert all_reduce_seconds(4, 10**9, 12, network) == pytest.approx(1.5 + 6 * 0.001 * 12)
    assert all_reduce_seconds(1000, 10**9, 1, Network(8)) == pytest.approx(1.998)


def test_speed_of_a_ring_is_the_reverse() -> None:
    assert ring_gbits(4, 10**9, all_reduce_seconds(4, 10**9, 12, Network(8))) == pytest.approx(8)
    assert ring_gbits(2, 10**9, 0.0) == 0


@pytest.mark.parametrize(('overlap', 'step'), [(0.0, 3.5), (0.5, 2.75), (1.0, 2.0)])
def test_projection(overlap: float, step: float) -> None:
    """A step of 2 s for 10 examples, and 1.5 s of averaging by four."""
    projection = project(Process(2.0, 10, 10**9, 12), 4, Network(8), overlap)
    assert projection.averaging_seconds == pytest.approx(1.5)
    assert projection.step_seconds == pytest.approx(step)
    assert projection.examples_per_second == pytest.approx(40 / step)
    assert projection.efficiency == pytest.approx(2 / step)


def measured(*steps: dict[str, Any]) -> dict[str, Any]:
    same = {'audio_seconds': 5.0, 'gradient_bytes': 40, 'gradients': 2, 'device': 'CPU', 'tensorflow': '2'}
    return {'steps': list(steps), **same}


def test_steps_of_ranks() -> None:
    """The second rank is slower: the first waits for it a second, of which its averaging tells."""
    first = measured({'seconds': 5.0, 'towers': [2.0], 'averaging': 1.5, 'input': 0.1})
    second = measured({'seconds': 5.1, 'towers': [3.0], 'averaging': 0.5, 'input': 0.2})
    turn = combine([first, second])
    (step,) = turn.steps
    assert step == Step(seconds=5.1, compute=2.5, waiting=0.5, averaging=0.5, input=0.2)
    assert step.rest == pytest.approx(1.4)
    assert (turn.audio_seconds, turn.gradient_bytes, turn.gradients) == (10.0, 40, 2)


def test_steps_of_towers() -> None:
    (step,) = combine([measured({'seconds': 4.0, 'towers': [1.0, 3.0], 'averaging': 0.5, 'input': 0.0})]).steps
    assert (step.compute, step.waiting, step.averaging, step.rest) == (2.0, 1.0, 0.5, 0.5)


def results(towers: int, *seconds: list[float]) -> Results:
    """Turns with steps of so many seconds."""
    contestant = Contestant(str(towers), bench_scaling.replace(TASK, towers=towers))
    turns = [Turn([Step(s, s, 0, 0, 0) for s in turn], 6.0 * towers, 40, 2, 'CPU', '2') for turn in seconds]
    return Results(contestant, turns)


def test_ratios_are_those_of_medians() -> None:
    one = results(1, [1.0, 1.0, 9.0], [2.0, 2.0, 2.0])
    two = results(2, [2.0, 2.0, 2.0], [2.0, 9.0, 2.0])
    assert one.seconds() == 2.0
    assert (one.examples_per_second, one.audio_seconds_per_second) == (1.5, 3.0)
    assert two.ratio_to(one) == '2.00 (1.00-2.00)'
    assert one.as_process() == Process(2.0, 3, 40, 2)


def test_contestants() -> None:
    def names(towers: int, ranks: int, *, wide: bool) -> list[tuple[str, int, int]]:
        found = bench_scaling.choose_contestants(TASK, towers, ranks, wide=wide)
        return [(each.name, each.examples, each.workers) for each in found]

    assert names(2, 2, wide=True) == [
        ('1 tower', 3, 1),
        ('2 towers', 6, 2),
        ('1 tower, batch 6', 6, 1),
        ('1 rank', 3, 1),
        ('2 ranks', 6, 2),
    ]
    assert names(1, 3, wide=False) == [('1 tower', 3, 1), ('1 rank', 3, 1), ('2 ranks', 6, 2), ('3 ranks', 9, 3)]
    assert names(1, 0, wide=True) == [('1 tower', 3, 1)]


@pytest.mark.parametrize(
    'wrong', ['--ranks=-1', '--towers=0', '--gpus=2,x', '--network_gbits=0', '--latency_us=-1', '--overlap=1.1']
)
def test_wrong_values_are_refused(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench_scaling.main([wrong])
    assert wrong.split('=')[0] in capsys.readouterr().err


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r'(?s)1 tower failed with status 2:.*noise\.csv'):
        take_turn(Contestant('1 tower', TASK))


@pytest.mark.slow
def test_a_run_with_all_that_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    has_horovod = importlib.util.find_spec('horovod') is not None
    path = tmp_path / 'figures.json'
    assert bench_scaling.main([*TINY, '--gpus', '1,16', '--json', str(path)]) == 0
    output = capsys.readouterr().out
    figures = json.loads(path.read_text())
    names = [each['name'] for each in figures['results']]
    assert names[:3] == ['1 tower', '2 towers', '1 tower, batch 2']
    assert names[3:] == (['1 rank', '2 ranks'] if has_horovod else [])
    assert '2 towers against 1 tower, batch 2: ' in output
    assert ('2 ranks: gradients sent at' in output) == has_horovod
    for each in figures['results']:
        seconds = each['median_seconds']
        assert 0 < seconds['step'] < 10
        assert all(math.isfinite(value) and value >= 0 for value in seconds.values())
        assert each['audio_seconds_per_second'] == pytest.approx(each['examples_per_second'] * 0.412)
        assert [len(turn['steps']) for turn in each['turns']] == [2]
        # Five layers of 8 units, 26 x 19 inputs, 29 outputs, the LSTM's 16 x 32.
        assert each['turns'][0]['gradient_bytes'] == 4 * (494 * 8 + 3 * 8 * 8 + 4 * 8 + 16 * 32 + 32 + 8 * 29 + 29)
        assert each['turns'][0]['gradients'] == 12
    one, many = figures['projections']
    assert one['efficiency'] == 1
    assert many['averaging_seconds'] == pytest.approx(15 / 16 * 2 * 4 * 4981 * 8 / 1e10 + 30 * 50e-6 * 12)


@pytest.mark.slow
def test_towers_only_where_horovod_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, 'horovod', None)
    assert bench_scaling.main([*TINY, '--towers', '1', '--ranks', '2']) == 0
    output = capsys.readouterr().out
    assert 'bin/install_horovod.sh builds it' in output
    assert 'efficiency' in output
    assert 'rank' not in output.partition('Towers only.')[2]
