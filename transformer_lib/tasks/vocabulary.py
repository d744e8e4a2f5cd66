"""Texts to token numbers and back: characters, words, or subwords that were learned.

Every vocabulary numbers padding 0, the start of a sentence 1 and its end 2. Texts are
brought to Unicode's composed form (NFC) first, so that ``한`` is one character however
it was typed.
"""

import json
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, SupportsInt

__all__ = [
    "CharacterVocabulary",
    "SubwordVocabulary",
    "Vocabulary",
    "WordVocabulary",
    "vocabulary_from_dict",
]

_SPECIAL = 3


class Vocabulary(ABC):
    """Numbers for the tokens of a text.

    Attributes
    ----------
    pad_id, bos_id, eos_id
        Padding, start and end of a sentence: 0, 1, 2.
    unk_id
        Stands for whatever is not in the vocabulary; ``None`` if unknown characters are
        refused or never occur.
    """

    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2
    unk_id: int | None = None

    @abstractmethod
    def __len__(self) -> int:
        """Count the numbers, the special ones included."""

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Return the numbers of a text, without start and end.

        Raises
        ------
        ValueError
            If something in the text has no number.
        """

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the numbers of each text."""
        return [self.encode(text) for text in texts]

    def decode(self, ids: Iterable[SupportsInt]) -> str:
        """Return the text of a row of numbers, up to the end of the sentence.

        Padding and start are passed over.

        Raises
        ------
        ValueError
            If a number is not in the vocabulary.
        """
        found = []
        numbers = ids.tolist() if hasattr(ids, "tolist") else map(int, ids)
        for number in numbers:
            if number == self.eos_id:
                break
            if not 0 <= number < len(self):
                raise ValueError(f"ids: got {number}, wanted 0 to {len(self) - 1}")
            if number not in (self.pad_id, self.bos_id):
                found.append(number)
        return self._text(found)

    @abstractmethod
    def _text(self, ids: list[int]) -> str: ...

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return all that :func:`vocabulary_from_dict` needs, ready for JSON."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self is other or self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(json.dumps(self.to_dict(), sort_keys=True))


class CharacterVocabulary(Vocabulary):
    """One number per character, from 3 on; other characters are refused.

    Parameters
    ----------
    characters
        The characters in the order of their numbers. No repetition.

    Raises
    ------
    ValueError
        If there is no character, or one occurs twice.

    Examples
    --------
    >>> letters = CharacterVocabulary.of(["12.7", "3"])
    >>> letters.encode("7.3")
    [7, 3, 6]
    >>> letters.decode([1, 7, 3, 6, 2, 0])
    '7.3'
    """

    def __init__(self, characters: str) -> None:
        if not characters:
            raise ValueError("characters: got none, wanted at least one")
        self.characters = characters
        self._id_of = _numbered("characters", characters)

    @classmethod
    def of(cls, texts: Iterable[str]) -> "CharacterVocabulary":
        """Make the vocabulary of all characters in ``texts``, sorted."""
        return cls("".join(sorted(set().union(*map(_composed, texts)))))

    def __len__(self) -> int:
        """Count the numbers, the special ones included."""
        return len(self.characters) + _SPECIAL

    def encode(self, text: str) -> list[int]:
        """Return one number per character.

        Raises
        ------
        ValueError
            If a character is not in the vocabulary.
        """
        id_of = self._id_of
        composed = _composed(text)
        try:
            return [id_of[character] for character in composed]
        except KeyError as unknown:
            raise ValueError(
                f"text: got {unknown.args[0]!r} in {text!r}, wanted characters among "
                f"{self.characters!r}"
            ) from None

    def _text(self, ids: list[int]) -> str:
        return "".join(self.characters[i - _SPECIAL] for i in ids)

    def to_dict(self) -> dict[str, Any]:
        """Return all that :func:`vocabulary_from_dict` needs, ready for JSON."""
        return {"kind": "characters", "characters": self.characters}

    def __repr__(self) -> str:
        return f"CharacterVocabulary({self.characters!r})"


class WordVocabulary(Vocabulary):
    """One number per word, from 3 on; words stand between spaces, others are refused.

    Parameters
    ----------
    words
        The words in the order of their numbers. No repetition, no space inside.

    Raises
    ------
    ValueError
        If there is no word, one occurs twice, is empty or holds a space.

    Examples
    --------
    >>> words = WordVocabulary(["six", "thousand", "two"])
    >>> words.encode("two thousand six")
    [5, 4, 3]
    >>> words.decode([5, 4, 3, 2])
    'two thousand six'
    """

    def __init__(self, words: Sequence[str]) -> None:
        if not words:
            raise ValueError("words: got none, wanted at least one")
        self.words = tuple(words)
        for word in self.words:
            if word.split() != [word]:
                raise ValueError(f"words: got {word!r}, wanted words without spaces")
        self._id_of = _numbered("words", self.words)

    def __len__(self) -> int:
        """Count the numbers, the special ones included."""
        return len(self.words) + _SPECIAL

    def encode(self, text: str) -> list[int]:
        """Return one number per word.

        Raises
        ------
        ValueError
            If a word is not in the vocabulary.
        """
        try:
            return [self._id_of[word] for word in _composed(text).split()]
        except KeyError as unknown:
            raise ValueError(
                f"text: got {unknown.args[0]!r} in {text!r}, wanted words among "
                f"{' '.join(self.words)}"
            ) from None

    def _text(self, ids: list[int]) -> str:
        return " ".join(self.words[i - _SPECIAL] for i in ids)

    def to_dict(self) -> dict[str, Any]:
        """Return all that :func:`vocabulary_from_dict` needs, ready for JSON."""
        return {"kind": "words", "words": list(self.words)}

    def __repr__(self) -> str:
        return f"WordVocabulary({list(self.words)!r})"


def _numbered(name: str, tokens: Sequence[str]) -> dict[str, int]:
    id_of = {token: i for i, token in enumerate(tokens, start=_SPECIAL)}
    if len(id_of) != len(tokens):
        twice = next(t for i, t in enumerate(tokens) if t in tokens[:i])
        raise ValueError(f"{name}: {twice!r} occurs twice")
    return id_of


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


_SPECIAL_TOKENS = ("<pad>", "<s>", "</s>")
_MOST_REMEMBERED = 100_000


class SubwordVocabulary(Vocabulary):
    """Pieces of words, learned by byte-pair encoding (Sennrich, Haddow, Birch 2016).

    It begins with the 256 bytes and joins the most frequent pair of neighbours again
    and again, so frequent words become one token, rare ones several, and every text
    has an encoding: nothing is unknown. A space belongs to the word behind it, and no
    join crosses one. White space counts as one space, and none at the ends.

    Needs the package ``tokenizers``.

    Parameters
    ----------
    tokenizer
        A byte-level tokenizer of that package, as the JSON text it writes. Use
        :meth:`train` to make one.

    Raises
    ------
    ValueError
        If the text is no tokenizer, or its first three tokens are not the special ones.
    ModuleNotFoundError
        If ``tokenizers`` is missing.

    Examples
    --------
    >>> subwords = SubwordVocabulary.train(["der hund", "der hut", "der hahn"], 264)
    >>> subwords.pieces("der hund")
    [' der', ' hu', 'n', 'd']
    >>> subwords.decode(subwords.encode("ein Ölbaum 🌳"))
    'ein Ölbaum 🌳'
    """

    def __init__(self, tokenizer: str) -> None:
        tokenizers = _tokenizers()
        try:
            self._tokenizer = tokenizers.Tokenizer.from_str(tokenizer)
        except Exception as problem:  # the package raises Exception itself
            raise ValueError(f"tokenizer: not a tokenizer's JSON ({problem})") from None
        first = tuple(self._tokenizer.id_to_token(i) for i in range(_SPECIAL))
        if first != _SPECIAL_TOKENS:
            raise ValueError(
                f"tokenizer: got the first tokens {first}, wanted {_SPECIAL_TOKENS}"
            )
        self._tokenizer.encode_special_tokens = (
            True  # who types </s> means these letters
        )
        self._json = tokenizer
        self._size = int(self._tokenizer.get_vocab_size())
        self._ids_of: dict[str, list[int]] = {}

    @classmethod
    def train(
        cls, texts: Iterable[str], vocab_size: int, *, split_punctuation: bool = True
    ) -> "SubwordVocabulary":
        """Learn the joins from texts; the same texts give the same vocabulary.

        Parameters
        ----------
        texts
            Sentences; both languages together for a joint vocabulary.
        vocab_size
            Tokens in the end, 259 (the bytes and three special ones) or more. There are
            fewer if the texts have no pair left that occurs twice.
        split_punctuation
            Keep letters, digits and other signs apart; ``False`` for texts in which
            words and signs stand between spaces already.

        Raises
        ------
        ValueError
            If ``vocab_size`` is too small.
        ModuleNotFoundError
            If ``tokenizers`` is missing.
        """
        tokenizers = _tokenizers()
        least = 256 + _SPECIAL
        if vocab_size < least:
            raise ValueError(f"vocab_size: got {vocab_size}, wanted {least} or more")
        before = tokenizers.pre_tokenizers
        made = tokenizers.Tokenizer(tokenizers.models.BPE())
        made.pre_tokenizer = before.Sequence(
            [
                before.Split(tokenizers.Regex(r" ?\S+"), "isolated"),
                before.ByteLevel(add_prefix_space=True, use_regex=split_punctuation),
            ]
        )
        made.decoder = tokenizers.decoders.ByteLevel()
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=vocab_size,
            min_frequency=2,
            special_tokens=list(_SPECIAL_TOKENS),
            initial_alphabet=before.ByteLevel.alphabet(),
            show_progress=False,
        )
        lines = (" ".join(_composed(text).split()) for text in texts)
        made.train_from_iterator(lines, trainer)
        return cls(made.to_str())

    def __len__(self) -> int:
        """Count the numbers, the special ones included."""
        return self._size

    def encode(self, text: str) -> list[int]:
        """Return the numbers of the pieces; every text has some, unless it is empty."""
        return [i for word in _composed(text).split() for i in self._word(word)]

    def _word(self, word: str) -> list[int]:
        ids = self._ids_of.get(word)
        if ids is None:
            ids = self._tokenizer.encode(word, add_special_tokens=False).ids
            if len(self._ids_of) >= _MOST_REMEMBERED:
                self._ids_of.clear()
            self._ids_of[word] = ids
        return ids

    def pieces(self, text: str) -> list[str]:
        """Return the text of each token; � stands for a part of a character."""
        return [self._tokenizer.decode([i]) for i in self.encode(text)]

    def _text(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids)).strip()

    def to_dict(self) -> dict[str, Any]:
        """Return all that :func:`vocabulary_from_dict` needs, ready for JSON."""
        return {"kind": "subwords", "tokenizer": self._json}

    def __repr__(self) -> str:
        return f"<SubwordVocabulary of {len(self)} tokens>"


def _tokenizers() -> Any:
    try:
        import tokenizers
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "subwords need the package tokenizers: "
            "pip install 'transformer-lib[training]'"
        ) from None
    return tokenizers


def vocabulary_from_dict(saved: Mapping[str, Any]) -> Vocabulary:
    """Make a vocabulary again from what its ``to_dict`` returned.

    Raises
    ------
    ValueError
        If ``kind`` is unknown or another key is missing or left over.

    Examples
    --------
    >>> letters = CharacterVocabulary("abc")
    >>> vocabulary_from_dict(letters.to_dict()) == letters
    True
    """
    made: dict[str, Callable[[Any], Vocabulary]] = {
        "characters": CharacterVocabulary,
        "words": WordVocabulary,
        "subwords": SubwordVocabulary,
    }
    rest = dict(saved)
    kind = rest.pop("kind", None)
    if kind not in made:
        raise ValueError(f"kind: got {kind!r}, wanted one of {', '.join(made)}")
    wanted = {"subwords": "tokenizer"}.get(kind, kind)
    if set(rest) != {wanted}:
        raise ValueError(
            f"a vocabulary of {kind}: got the keys {sorted(rest)}, wanted {[wanted]}"
        )
    return made[kind](rest[wanted])
