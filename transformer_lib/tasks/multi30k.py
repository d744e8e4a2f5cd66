"""Multi30k: 29,000 captions of photographs in English and German.

Elliott, Frank, Sima'an and Specia 2016, "Multi30K: Multilingual English-German Image
Descriptions". The files come from the authors' repository at one commit, each with its
SHA-256, when they are first needed. The repository says of the photographs that they are
for research and teaching, and names no licence for the texts: they are no part of this
package.
"""

import gzip
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from transformer_lib.nn.checks import check_size
from transformer_lib.tasks.download import (
    MissingDataError,
    RemoteFile,
    cache_folder,
    fetch,
)
from transformer_lib.tasks.task import (
    Pair,
    SubwordVocabulary,
    Task,
    Vocabulary,
    check_written,
)

__all__ = ["COMMIT", "REPOSITORY", "SHA256", "Multi30kTask", "Variant", "bleu"]

Variant = Literal["raw", "tok"]

FOLDER_VARIABLE = "TRANSFORMER_LIB_MULTI30K"

REPOSITORY = "https://github.com/multi30k/dataset"

COMMIT = "a3d2e0d26b56f3846f66a952536ffed4e401d05a"

_ADDRESS = "https://raw.githubusercontent.com/multi30k/dataset"

_PARTS = {
    "train": "train",
    "validation": "val",
    "test2016": "test_2016_flickr",
    "test2017": "test_2017_flickr",
    "mscoco": "test_2017_mscoco",
}

SHA256 = {
    "raw/train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "raw/train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "raw/val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "raw/val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "raw/test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "raw/test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "raw/test_2017_flickr.en.gz": "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074",
    "raw/test_2017_flickr.de.gz": "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee",
    "raw/test_2017_mscoco.en.gz": "aab300bfb4427697987e02cd0aacd44bfe8aa50456231b6474c08038bbed2b58",
    "raw/test_2017_mscoco.de.gz": "799e4854c25d601cb6cb6be29eabe5667734c61ace2f495e03e429031a0bc338",
    "tok/train.lc.norm.tok.en": "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119",
    "tok/train.lc.norm.tok.de": "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505",
    "tok/val.lc.norm.tok.en": "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec",
    "tok/val.lc.norm.tok.de": "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00",
    "tok/test_2016_flickr.lc.norm.tok.en": "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2",
    "tok/test_2016_flickr.lc.norm.tok.de": "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4",
    "tok/test_2017_flickr.lc.norm.tok.en": "c9d1dfd7a26add989382e534af235af9f0f658b2a30e7eb0efdaf142496ee54f",
    "tok/test_2017_flickr.lc.norm.tok.de": "02067e4a9402786a4fcb8c1b6f4307e4a5073ced64800abead5273b54f5f31f6",
    "tok/test_2017_mscoco.lc.norm.tok.en": "fe69ae004d71c42ead0301e70c57de5b1b6b5fb7f52210d42b22801e98e656f3",
    "tok/test_2017_mscoco.lc.norm.tok.de": "e2825990b8a4e5289d2cdba801d57c187810bab9b4f5d87a30c35800a0d871b6",
}
"""Files below ``data/task1`` of the repository, and the SHA-256 of each."""


class Multi30kTask(Task):
    """English captions to German ones, in subwords of one joint vocabulary.

    The files are taken from ``folder``, else from the folder that the environment
    variable ``TRANSFORMER_LIB_MULTI30K`` names, else from the cache
    (:func:`~transformer_lib.tasks.download.cache_folder`), into which they are
    downloaded when they are first needed, about 1.4 MB. A folder may hold them as in
    the repository (``raw/train.en.gz``, ...) or side by side, compressed or not; they are
    taken as they are. Pairs without text on one side are left out.

    Parameters
    ----------
    vocab_size
        Subwords of the joint vocabulary, which is learned from the training set.
    variant
        ``"raw"`` for the sentences as they were written. ``"tok"`` for the files that
        published scores use: lower case, punctuation normalised, words between spaces.
    lowercase
        Make all letters small.
    folder
        Where the files are; ``None`` to look as said above.
    max_len
        Longest source or target in tokens, start and end included.

    Raises
    ------
    TypeError, ValueError
        If a value is impossible.
    MissingDataError
        When the data are needed: if they are not at hand and cannot be fetched.
    """

    name = "multi30k"
    metric = "bleu"
    splits = tuple(_PARTS)

    def __init__(
        self,
        *,
        vocab_size: int = 10_000,
        variant: Variant = "raw",
        lowercase: bool = True,
        folder: str | os.PathLike[str] | None = None,
        max_len: int = 128,
    ) -> None:
        super().__init__()
        if variant not in ("raw", "tok"):
            raise ValueError(f"variant: got {variant!r}, wanted 'raw' or 'tok'")
        self.vocab_size = check_size("vocab_size", vocab_size, least=259)
        self.variant = variant
        self.lowercase = lowercase
        self.folder = None if folder is None else Path(folder)
        self._max_len = check_size("max_len", max_len, least=3)

    def options(self) -> dict[str, Any]:
        """Return the arguments that make this task again, ready for JSON."""
        return {
            "vocab_size": self.vocab_size,
            "variant": self.variant,
            "lowercase": self.lowercase,
            "folder": None if self.folder is None else str(self.folder),
            "max_len": self._max_len,
        }

    @property
    def max_len(self) -> int:
        """Longest source or target in tokens, start and end included."""
        return self._max_len

    def prepare(self, text: str) -> str:
        """Bring a source text that somebody typed to the form that the task uses."""
        text = super().prepare(text)
        return text.lower() if self.lowercase else text

    def score(
        self, written: Sequence[str], pairs: Sequence[Pair]
    ) -> dict[str, float | str]:
        """Compare what a model wrote with the targets: BLEU and how it was computed.

        Returns
        -------
        dict
            ``"bleu"`` and sacrebleu's ``"signature"``.
        """
        return bleu(written, pairs, tokenised=self.variant == "tok")

    def _read(self, split: str) -> list[Pair]:
        suffix = ".lc.norm.tok" if self.variant == "tok" else ""
        names = [f"{_PARTS[split]}{suffix}.{language}" for language in ("en", "de")]
        english, german = (
            [self.prepare(line) for line in self._lines(name)] for name in names
        )
        if len(english) != len(german):
            raise ValueError(
                f"{names[0]} has {len(english)} lines, {names[1]} has {len(german)}"
            )
        return [Pair(*pair) for pair in zip(english, german, strict=True) if all(pair)]

    def _lines(self, name: str) -> list[str]:
        content = self._content(name)
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        return content.decode("utf-8").removesuffix("\n").split("\n")

    def _content(self, name: str) -> bytes:
        folder = self.folder or os.environ.get(FOLDER_VARIABLE)
        if folder:
            return _from_folder(Path(folder), self.variant, name)
        key = f"{self.variant}/{name}"
        key = key if key in SHA256 else f"{key}.gz"
        address = f"{_ADDRESS}/{COMMIT}/data/task1/{key}"
        cache = cache_folder() / "multi30k" / self.variant
        try:
            return fetch(RemoteFile(address, SHA256[key]), cache)
        except MissingDataError as problem:
            raise MissingDataError(
                f"Multi30k is not at hand: {problem}. To go on without the network put "
                f"{key} and the like from {REPOSITORY} (data/task1) into a folder and "
                f"name it in {FOLDER_VARIABLE}"
            ) from problem

    def _make_vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        texts = [
            text for side in zip(*self.pairs("train"), strict=True) for text in side
        ]
        joint = SubwordVocabulary.train(
            texts, self.vocab_size, split_punctuation=self.variant == "raw"
        )
        return joint, joint


def _from_folder(folder: Path, variant: str, name: str) -> bytes:
    tried = [
        place / file
        for place in (folder / variant, folder)
        for file in (f"{name}.gz", name)
    ]
    for path in tried:
        if path.is_file():
            return path.read_bytes()
    raise MissingDataError(
        f"{folder}: Multi30k's {name} is not there; looked for "
        f"{', '.join(str(path.relative_to(folder)) for path in tried)}"
    )


def bleu(
    written: Sequence[str], pairs: Sequence[Pair], *, tokenised: bool = False
) -> dict[str, float | str]:
    """Return BLEU of texts against their targets, whatever the case of the letters.

    Parameters
    ----------
    written
        One text for each pair.
    pairs
        Their targets are the one reference of each text.
    tokenised
        ``True`` if words and signs stand between spaces already, as published scores
        of Multi30k have it; else sacrebleu's tokenizer 13a splits them.

    Returns
    -------
    dict
        ``"bleu"`` from 0 to 100, and sacrebleu's ``"signature"`` (Post 2018, "A Call for
        Clarity in Reporting BLEU Scores").

    Raises
    ------
    ValueError
        If there are not as many texts as pairs, or none.
    ModuleNotFoundError
        If ``sacrebleu`` is missing.

    Examples
    --------
    >>> scores = bleu(["ein Hund läuft."], [Pair("a dog runs.", "Ein Hund läuft.")])
    >>> round(scores["bleu"], 1), scores["signature"].split("|version")[0]
    (100.0, 'nrefs:1|case:lc|eff:no|tok:13a|smooth:exp')
    """
    check_written(written, pairs)
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "BLEU needs the package sacrebleu: pip install 'transformer-lib[training]'"
        ) from None
    # force: sentences that end in " ." are no mistake here
    metric = BLEU(lowercase=True, tokenize="none" if tokenised else "13a", force=True)
    result = metric.corpus_score(list(written), [[pair.target for pair in pairs]])
    return {"bleu": float(result.score), "signature": str(metric.get_signature())}
