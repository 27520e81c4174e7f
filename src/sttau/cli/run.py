"""``sttau run``: one text or string, element by element."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sttau.cli.common import DeviceOption, SeedOption, choose_device, plain_errors, print_line, print_table
from sttau.cli.model_files import ModelArgument, SamplesOption, load_model


def run(
    model: ModelArgument,
    text: Annotated[str, typer.Argument(help="Text, or string of symbols.")],
    samples: SamplesOption = 10,
    seed: SeedOption = 0,
    device: DeviceOption = "auto",
) -> None:
    """Read one text or string and show the prediction and its uncertainty after every element.

    Example: sttau run model "a fine film"
    """
    from sttau import predict
    from sttau.data import encode

    device = choose_device(device)
    with plain_errors():
        loaded: Any = load_model(model, device)
        if not loaded.reads_tokens or loaded.vocabulary is None:
            raise ValueError("the model reads features, not text; use sttau predict")
        if loaded.task != "classification":
            raise ValueError("sttau run shows classes; use sttau predict for a regressor")
        inputs, lengths = encode(text, loaded.vocabulary)
        names = loaded.class_names or tuple(map(str, range(loaded.num_outputs)))
        every = predict(loaded, inputs, lengths, samples, seed, per_step=True).cpu()
        words = [loaded.vocabulary[token] for token in inputs[0, : int(lengths[0])].tolist()]
        rows = [
            [
                word,
                names[int(every.label[0, step])],
                f"{float(every.confidence[0, step]):.2f}",
                *(f"{float(getattr(every, name)[0, step]):.2f}" for name in ("total", "aleatoric", "epistemic")),
            ]
            for step, word in enumerate(words)
        ]
        print_table(["read", "label", "confidence", "total", "aleatoric", "epistemic"], rows, align="llr")
        last = len(words) - 1
        print_line(f"{names[int(every.label[0, last])]} ({float(every.confidence[0, last]):.2f})", style="bold")
