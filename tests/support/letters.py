"""A task that is made and learned in no time, for the tests of training."""

from __future__ import annotations

import random
from typing import Any

from transformer_lib.tasks.task import CharacterVocabulary, Pair, Task, Vocabulary
from transformer_lib.training import Run, TrainingSettings

LETTERS = "abcdefgh"


class LettersTask(Task):
    """Some letters -> the same in capitals, from the last to the first."""

    name = "letters"

    def __init__(self, seed: int = 0, train: int = 60, longest: int = 6) -> None:
        super().__init__()
        self.seed, self.train, self.longest = seed, train, longest

    def options(self) -> dict[str, Any]:
        return {"seed": self.seed, "train": self.train, "longest": self.longest}

    @property
    def max_len(self) -> int:
        return self.longest + 2

    def _read(self, split: str) -> list[Pair]:
        count = {"train": self.train, "validation": 12, "test": 20}[split]
        generator = random.Random(f"{self.seed} {split}")
        words = [
            "".join(generator.choices(LETTERS, k=generator.randint(2, self.longest)))
            for _ in range(count)
        ]
        return [Pair(word, word[::-1].upper()) for word in words]

    def _make_vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        return CharacterVocabulary(LETTERS), CharacterVocabulary(LETTERS.upper())


MODEL = {
    "d_model": 16,
    "num_heads": 2,
    "d_ff": 32,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "dropout": 0.1,
    "norm_first": True,
}


def letters_run(**settings: Any) -> Run:
    values: dict[str, Any] = {
        "steps": 10,
        "max_tokens": 64,
        "lr": 1e-2,
        "warmup": 1,
        "log_every": 2,
        "device": "cpu",
    }
    return Run(
        task="letters",
        model=MODEL,
        settings=TrainingSettings.from_dict({**values, **settings}),
    )
