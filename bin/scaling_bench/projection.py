"""How fast a cluster would be, from what one process needs for a step and what it has to send.

Each GPU has a process with a batch of its own, of the same size however many there are (weak scaling), so that a step
takes the time of one process and that of averaging, as far as it does not go on beside the backward pass.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Network:
    """What lies between neighbours in the ring of processes."""

    gbits: float  # 10^9 bits a second, in each direction
    latency_us: float = 0.0  # microseconds until a message has arrived

    @property
    def bytes_per_second(self) -> float:
        return self.gbits * 1e9 / 8

    @property
    def latency_seconds(self) -> float:
        return self.latency_us * 1e-6


@dataclass(frozen=True)
class Process:
    """One process by itself: its step, and the gradients that it would have to average with others."""

    step_seconds: float
    examples: float  # of one step
    gradient_bytes: int
    gradients: int  # tensors, each of which travels by itself


@dataclass(frozen=True)
class Projection:
    """A job of `gpus` processes."""

    gpus: int
    averaging_seconds: float
    step_seconds: float
    examples_per_second: float
    efficiency: float  # share of `gpus` times the speed of one process


def all_reduce_seconds(gpus: int, gradient_bytes: int, gradients: int, network: Network) -> float:
    """Seconds for the sums of `gradients` tensors of `gradient_bytes` altogether, in a ring, one after the other.

    Every process sends 1/G of a tensor to its neighbour, 2 (G - 1) times: once round for the sums, once for handing
    them out (Patarasuk and Yuan 2009):

        2 (G - 1) / G * bytes / bandwidth + 2 (G - 1) * latency * tensors
    """
    messages = 2 * (gpus - 1)
    return messages / gpus * gradient_bytes / network.bytes_per_second + messages * network.latency_seconds * gradients


def project(process: Process, gpus: int, network: Network, overlap: float = 0.0) -> Projection:
    """A step on `gpus` GPUs; the share `overlap` of averaging goes on beside the backward pass and costs nothing."""
    averaging = all_reduce_seconds(gpus, process.gradient_bytes, process.gradients, network)
    step = process.step_seconds + (1 - overlap) * averaging
    return Projection(
        gpus=gpus,
        averaging_seconds=averaging,
        step_seconds=step,
        examples_per_second=gpus * process.examples / step,
        efficiency=process.step_seconds / step,
    )


def ring_gbits(ranks: int, gradient_bytes: int, seconds: float) -> float:
    """The speed, in Gbit/s, at which `ranks` processes that took `seconds` have sent their gradients."""
    return 2 * (ranks - 1) / ranks * gradient_bytes * 8 / 1e9 / seconds if seconds > 0 else 0.0
