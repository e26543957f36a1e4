"""Outputs elsewhere than in local files."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepspeech_training import storage
from deepspeech_training.data.formats import read_data_set
from deepspeech_training.data.writing import content_of
from deepspeech_training.set_tool.conversion import Conversion
from deepspeech_training.set_tool.job import Job, check_job, run
from deepspeech_training.set_tool.splitting import parse_parts
from tests.doctor.sets import sound_set, table


@pytest.mark.parametrize('conversion', [None, Conversion(sample_rate=8000, format='flac')])
def test_a_container_at_an_address(tmp_path: Path, conversion: Conversion | None) -> None:
    source, output = table(tmp_path / 'in.csv', sound_set(tmp_path)), f'memory://{tmp_path.name}/out.tar'
    job = Job((str(source),), (output,), conversion=conversion)
    check_job(job)
    assert run(job) == [f'{output}: 3 utterances']
    samples, problems = read_data_set(output)
    assert problems == []
    assert [sample.transcript for sample in samples] == ['say one one', 'say one two', 'say one three']
    assert content_of(samples[0]).startswith(b'fLaC' if conversion else b'RIFF')
    assert storage.status(output).size > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ['in.csv', 'train']


def test_by_speaker(tmp_path: Path) -> None:
    rows = sound_set(tmp_path, count=4) * 5
    source = table(tmp_path / 'in.csv', rows, speaker=[f'speaker {number}' for number in range(20)])
    outputs = [str(tmp_path / name) for name in ('train.csv', 'test.csv')]
    run(Job((str(source),), tuple(outputs), parts=tuple(parse_parts('rest,25%'))))
    speakers = [{sample.speaker for sample in read_data_set(output)[0]} for output in outputs]
    assert [len(each) for each in speakers] == [15, 5]
    assert not speakers[0] & speakers[1]
