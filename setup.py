"""Installs the trainer: `pip install -e '.[cpu]'`, with `cuda` in the place of `cpu` for NVIDIA GPUs.

`-c requirements/constraints.txt` pins also what the pinned packages need in their turn.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent


def read_requirements(name: str) -> list[str]:
    """The requirements of `requirements/<name>.txt`, those of the files that it includes too."""
    requirements = []
    for line in (ROOT / 'requirements' / f'{name}.txt').read_text(encoding='utf-8').splitlines():
        line = line.strip()
        if line.startswith('-r '):
            requirements += read_requirements(line[3:].strip().removesuffix('.txt'))
        elif line and not line.startswith('#'):
            requirements.append(line)
    return requirements


setup(
    name='deepspeech_training',
    version='0.1.0',
    description="DeepSpeech's trainer for today's TensorFlow, Python and NumPy: towers and Horovod",
    python_requires='>=3.10,<3.14',
    packages=find_packages(include=['deepspeech_training', 'deepspeech_training.*']),
    entry_points={'console_scripts': ['deepspeech-training = deepspeech_training.cli:main']},
    install_requires=read_requirements('runtime'),
    extras_require={
        extra: read_requirements(extra)
        for extra in ('cpu', 'cuda', 'horovod', 'demo', 'onnx', 'scorer', 'tuning', 'dev')
    },
)
