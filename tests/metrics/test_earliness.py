from __future__ import annotations

import pytest
import torch

from sttau.metrics import decide_early, earliness_curve


def probabilities() -> torch.Tensor:
    return torch.rand(50, 7, 3, generator=torch.Generator().manual_seed(0)).mul(6).softmax(-1)


def test_a_low_threshold_reads_one_step_and_a_high_one_everything() -> None:
    p, lengths = probabilities(), torch.arange(50) % 7 + 1
    assert decide_early(p, 0.0, lengths).step.tolist() == [1] * 50
    late = decide_early(p, 1.01, lengths)
    assert late.step.tolist() == lengths.tolist()
    assert late.label.tolist() == [int(p[row, length - 1].argmax()) for row, length in enumerate(lengths)]


def test_decisions_by_hand() -> None:
    p, lengths = probabilities(), torch.arange(50) % 7 + 1
    found = decide_early(p, 0.8, lengths)
    for row in range(50):
        steps = [step for step in range(int(lengths[row])) if p[row, step].max() >= 0.8]
        step = steps[0] if steps else int(lengths[row]) - 1
        assert (int(found.step[row]), int(found.label[row])) == (step + 1, int(p[row, step].argmax()))


def test_the_curve_ends_with_whole_sequences() -> None:
    p = probabilities()
    labels = p[:, -1].argmax(-1)
    curve = earliness_curve(p, labels)
    assert curve.error[-1] == 0
    assert curve.earliness[-1] == 1
    assert bool((curve.earliness.diff() >= 0).all())
    chosen = curve.choose(max_error=0.2)
    late = curve.threshold >= chosen
    assert bool((curve.error[late] <= 0.2).all())
    assert not bool(late.all())


def test_an_error_out_of_reach_is_refused() -> None:
    p = probabilities()
    with pytest.raises(ValueError, match=r"even whole sequences have an error of 1\.000"):
        earliness_curve(p, (p[:, -1].argmax(-1) + 1) % 3).choose(0.5)
    with pytest.raises(ValueError, match="probabilities must be"):
        decide_early(p[:, 0], 0.5)
