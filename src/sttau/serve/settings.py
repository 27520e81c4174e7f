"""Limits of the server."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Settings:
    """What the server allows.

    Attributes:
        token: Bearer token that requests must carry; none by default.
        hosts: Names in the Host header that are answered; all if empty.
        max_bytes: Size of the largest body of a request, and of the largest message of a stream.
        max_held_bytes: Largest size of all bodies of requests that are answered at the same time.
        max_sequences: Largest number of sequences of a request.
        max_steps: Largest number of steps of a sequence.
        max_samples: Largest number of Monte Carlo samples per member.
        max_work: Largest number of steps · samples · sequences of a request.
        max_sequence_work: Largest number of steps · samples of one sequence, which is computed without a pause.
        max_waiting: Largest number of requests that are answered at the same time; further ones are refused with 429.
        max_streams: Largest number of open streams.
        max_states: Largest number of states of an automaton that is shown.
        timeout: Seconds in which a request must have arrived and be answered, and after which a silent stream is
            closed.
        batch_work: Steps · samples · sequences that are computed at once.
        reload_seconds: Interval in which model files are examined for changes; 0 for never.
        warmup: Whether every model predicts once when it is loaded, so that the first request does not wait.

    Example:
        >>> Settings(token="a long secret").max_samples
        100
    """

    token: str | None = field(default=None, repr=False)
    hosts: tuple[str, ...] = ()
    max_bytes: int = 8 << 20
    max_held_bytes: int = 64 << 20
    max_sequences: int = 4096
    max_steps: int = 10_000
    max_samples: int = 100
    max_work: int = 1 << 25
    max_sequence_work: int = 1 << 19
    max_waiting: int = 256
    max_streams: int = 64
    max_states: int = 64
    timeout: float = 30.0
    batch_work: int = 1 << 16
    reload_seconds: float = 1.0
    warmup: bool = True

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, (int, float)) and value < 0:
                raise ValueError(f"{name} must not be negative, got {value}")
        if self.token is not None and len(self.token) < 8:
            raise ValueError("token must have at least 8 characters")
