"""A model of this library trained by Lightning instead of ``sttau.fit``.

Run: python examples/lightning_module.py
"""

from __future__ import annotations

import lightning
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import sttau


class SequenceModule(lightning.LightningModule):
    """Trains any predictor: the loss is the model's own, with the penalty of a distribution over weights."""

    def __init__(self, model: sttau.models.Predictor, sequences: int, learning_rate: float = 0.01) -> None:
        super().__init__()
        self.model, self.sequences, self.learning_rate = model, sequences, learning_rate

    def training_step(self, batch: tuple[Tensor, Tensor, Tensor], batch_idx: int) -> Tensor:
        """Return the loss of (inputs, lengths, labels)."""
        inputs, lengths, labels = batch
        loss = self.model.loss(inputs, labels, lengths)
        penalty = self.model.penalty(self.sequences)
        return loss if penalty is None else loss + penalty

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam for all weights."""
        return torch.optim.Adam(self.model.parameters(), lr=self.learning_rate)


def main(epochs: int = 3) -> float:
    """Train on digits and return the accuracy on test data."""
    train, test = (sttau.data.load("digits", split) for split in ("train", "test"))
    model = sttau.create_model(train, hidden_size=32, seed=0)
    loader = DataLoader(TensorDataset(train.inputs, train.lengths, train.labels), batch_size=64, shuffle=True)
    trainer = lightning.Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(SequenceModule(model, len(train)), loader)
    return float((sttau.predict(model, test).label == test.labels).float().mean())


if __name__ == "__main__":
    accuracy = main()
    print(f"accuracy {accuracy:.3f}")
