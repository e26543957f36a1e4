"""What augmentations of audio do, measured on tones and noise."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from deepspeech_training.data.augmentation import waveforms

RATE = 16000
Samples = npt.NDArray[np.float32]


def noise(count: int = RATE, seed: int = 1, scale: float = 0.1) -> Samples:
    return (scale * np.random.default_rng(seed).standard_normal(count)).astype(np.float32)


def tone(hertz: float, peak: float = 0.5, rate: int = RATE) -> Samples:
    return (peak * np.sin(2 * np.pi * hertz * np.arange(rate) / rate)).astype(np.float32)


def power(samples: Samples) -> float:
    return float(np.mean(np.square(samples, dtype=np.float64)))


def power_above(samples: Samples, hertz: float) -> float:
    spectrum = np.abs(np.fft.rfft(samples)) ** 2
    return float(spectrum[int(hertz * len(samples) / RATE) :].sum() / spectrum.sum())


@pytest.mark.parametrize('dbfs', [3.0103, 0.0, -10.0, -40.0])
def test_volume(dbfs: float) -> None:
    changed = waveforms.volume(noise(), dbfs)
    assert waveforms.level(changed) == pytest.approx(dbfs, abs=1e-4)
    assert np.corrcoef(changed, noise())[0, 1] == pytest.approx(1)


def test_a_peak_at_full_scale_is_at_3_dbfs_and_a_sine_has_a_mean_of_0() -> None:
    sine = tone(1000, 1.0)
    assert waveforms.level(sine) == pytest.approx(3.0103, abs=1e-4)
    assert 10 * np.log10(power(sine)) + 3.0103 == pytest.approx(0, abs=1e-3)


@pytest.mark.parametrize('snr', [-5.0, 0.0, 3.0, 20.0])
def test_overlay_has_the_ratio_asked_for(snr: float) -> None:
    """Speech and noise that can be told apart afterwards: a low and a high tone."""
    changed = waveforms.overlay(tone(500), tone(5000, 0.01), snr)
    spectrum = np.abs(np.fft.rfft(changed)) ** 2
    assert 10 * np.log10(spectrum[500] / spectrum[5000]) == pytest.approx(snr, abs=0.01)
    assert np.abs(changed).max() == pytest.approx(0.5)


@pytest.mark.parametrize('silent', [0, 1])
def test_silence_has_no_ratio(silent: int) -> None:
    parts = [noise(), noise(seed=2)]
    parts[silent] = np.zeros(RATE, np.float32)
    np.testing.assert_array_equal(waveforms.overlay(parts[0], parts[1], 3.0), parts[0])
    assert not waveforms.volume(np.zeros(5, np.float32), -3).any()


@pytest.mark.parametrize('delay', [1, 7, 63, 64, 65, 800, 20000])
def test_combs_are_what_they_are_by_definition(delay: int) -> None:
    samples, expected = noise(2000), noise(2000).astype(np.float64)
    for number in range(delay, len(expected)):
        expected[number] += 0.7 * expected[number - delay]
    np.testing.assert_allclose(waveforms.comb(samples, delay, 0.7), expected, atol=1e-5)


def test_reverb_echoes_where_and_as_loud_as_it_says() -> None:
    click = np.zeros(RATE, np.float32)
    click[100] = 0.5
    changed = waveforms.reverb(click, 50.0, 6.0, RATE)
    echoes = np.flatnonzero(np.abs(changed) > 1e-9)
    assert list(echoes[:2]) == [100, 100 + 800], 'the sound itself, and the first reflection after 50 ms'
    first, second = changed[900], changed[1700]
    assert 20 * np.log10(first / second) == pytest.approx(6.0, abs=0.01)
    assert changed.max() == pytest.approx(0.5)


def test_resample_takes_away_the_upper_half_and_keeps_the_rest() -> None:
    changed = waveforms.resample(noise(), RATE, 8000)
    assert len(changed) == RATE
    assert power_above(noise(), 4200) > 0.4
    assert power_above(changed, 4200) < 1e-4
    low = tone(440)
    np.testing.assert_allclose(waveforms.resample(low, RATE, 8000)[500:-500], low[500:-500], atol=1e-3)
    assert waveforms.resample(low, RATE, RATE) is low


@pytest.mark.parametrize('rate', [8000, 16000, 22050, 48000])
@pytest.mark.parametrize('bitrate', [6000, 32000])
def test_codec(rate: int, bitrate: int) -> None:
    """Of the same length, in place, and different; more bits are nearer."""
    speech = tone(300, 0.3, rate) + tone(700, 0.2, rate)
    changed = waveforms.codec(speech, bitrate, rate)
    assert len(changed) == len(speech)
    shifts = {
        shift: np.corrcoef(speech[1000:-1000], np.roll(changed, shift)[1000:-1000])[0, 1] for shift in range(-8, 9)
    }
    assert shifts[0] > 0.8
    assert not np.array_equal(changed, speech)


def test_more_bits_are_nearer() -> None:
    errors = [power(waveforms.codec(noise(), rate, RATE) - noise()) for rate in (6000, 32000, 128000)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 2 * errors[2]
    np.testing.assert_array_equal(waveforms.codec(noise(), 500, RATE), waveforms.codec(noise(), 6000, RATE))


@pytest.mark.parametrize('count', [1, 2, 100, 511, 512])
def test_short_samples_keep_their_length(count: int) -> None:
    samples = noise(count)
    before = samples.copy()
    for changed in (
        waveforms.volume(samples, -10),
        waveforms.overlay(samples, noise(count, 2), 3),
        waveforms.reverb(samples, 20, 10, RATE),
        waveforms.reverb(samples, 0, 0, RATE),
        waveforms.resample(samples, RATE, 500),
        waveforms.resample(samples, RATE, 384000),
        waveforms.codec(samples, 6000, RATE),
        waveforms.codec(samples, 6000, 44100),
    ):
        assert changed.shape == (count,)
        assert changed.dtype == np.float32
        assert np.isfinite(changed).all()
    np.testing.assert_array_equal(samples, before)
