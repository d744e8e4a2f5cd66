"""Multi30k: from a folder, a cache or the network, and scored as others score it."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from transformer_lib.tasks import MissingDataError, load_task, multi30k
from transformer_lib.tasks.multi30k import SHA256, Multi30kTask, bleu
from transformer_lib.tasks.task import Pair

ENGLISH = "Two young, White males are outside.\nA girl's  hat.\n"
GERMAN = "Zwei junge weiße Männer sind im Freien.\nDer Hut eines Mädchens.\n"


@pytest.fixture(autouse=True)
def _no_data_at_hand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the developer's own files nor the network, whatever a test does."""
    monkeypatch.delenv("TRANSFORMER_LIB_MULTI30K", raising=False)
    monkeypatch.setenv("TRANSFORMER_LIB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(multi30k, "_ADDRESS", "http://127.0.0.1:9")


def files_in(folder: Path, english: str = ENGLISH, german: str = GERMAN) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("train.en", english), ("train.de", german)):
        (folder / f"{name}.gz").write_bytes(
            gzip.compress(text.encode("utf-8"), mtime=0)
        )
    return folder


# --- files at hand --------------------------------------------------------------------


def test_pairs_are_lower_case_unless_asked(tmp_path: Path) -> None:
    files_in(tmp_path)
    assert list(Multi30kTask(folder=tmp_path).pairs("train")) == [
        Pair(
            "two young, white males are outside.",
            "zwei junge weiße männer sind im freien.",
        ),
        Pair("a girl's hat.", "der hut eines mädchens."),
    ]
    kept = Multi30kTask(folder=tmp_path, lowercase=False)
    assert kept.pairs("train")[0].source == "Two young, White males are outside."
    assert kept.prepare("A Dog") == "A Dog"
    assert Multi30kTask(folder=tmp_path).prepare("A  Dog ") == "a dog"


@pytest.mark.parametrize("below", ["", "raw"])
def test_files_lie_side_by_side_or_as_in_the_repository(
    tmp_path: Path, below: str
) -> None:
    files_in(tmp_path / below)
    assert len(Multi30kTask(folder=tmp_path).pairs("train")) == 2


def test_the_environment_names_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRANSFORMER_LIB_MULTI30K", str(files_in(tmp_path / "at hand")))
    task = load_task("multi30k")
    assert len(task.pairs("train")) == 2
    assert task.options()["folder"] is None
    other = files_in(tmp_path / "other", "one\n", "eins\n")
    assert len(load_task("multi30k", folder=str(other)).pairs("train")) == 1


def test_tokenised_files_are_plain_or_compressed(tmp_path: Path) -> None:
    (tmp_path / "tok").mkdir()
    english = tmp_path / "tok" / "train.lc.norm.tok.en"
    english.write_text("a dog &apos;s bed .\n", encoding="utf-8")
    german = tmp_path / "tok" / "train.lc.norm.tok.de.gz"
    german.write_bytes(gzip.compress(b"das bett eines hundes .\n"))
    task = Multi30kTask(folder=tmp_path, variant="tok", vocab_size=300)
    assert list(task.pairs("train")) == [
        Pair("a dog &apos;s bed .", "das bett eines hundes .")
    ]
    assert task.shares_vocabulary


def test_lines_are_ended_by_a_line_feed_alone(tmp_path: Path) -> None:
    files_in(tmp_path, "a\u2028b\x85c\r\nd\n", "x\ny\n")
    assert [pair.source for pair in Multi30kTask(folder=tmp_path).pairs("train")] == [
        "a b c",
        "d",
    ]


def test_pairs_without_text_on_a_side_are_left_out(tmp_path: Path) -> None:
    files_in(tmp_path, "a\n\nc\nd\n", "x\ny\n \nz\n")
    assert list(Multi30kTask(folder=tmp_path).pairs("train")) == [
        ("a", "x"),
        ("d", "z"),
    ]


def test_sides_of_unequal_length_are_refused(tmp_path: Path) -> None:
    files_in(tmp_path, "a\nb\n", "x\n")
    with pytest.raises(ValueError, match=r"train\.en has 2 lines, train\.de has 1"):
        Multi30kTask(folder=tmp_path).pairs("train")


def test_a_folder_without_the_file_is_told_with_where_it_was_looked_for(
    tmp_path: Path,
) -> None:
    files_in(tmp_path)
    with pytest.raises(
        MissingDataError, match=r"val\.en is not there; looked for raw.val\.en\.gz, "
    ) as caught:
        Multi30kTask(folder=tmp_path).pairs("validation")
    assert str(tmp_path) in str(caught.value)


def test_both_sides_share_a_vocabulary_learned_from_both(tmp_path: Path) -> None:
    files_in(tmp_path, "the red dog\n" * 30, "der rote hund\n" * 30)
    task = Multi30kTask(folder=tmp_path, vocab_size=400)
    assert task.source_vocabulary is task.target_vocabulary
    ids = task.source_vocabulary.encode("red hund")
    assert len(ids) == 2
    assert task.source_vocabulary.decode(ids) == "red hund"


def test_pairs_longer_than_max_len_are_refused(tmp_path: Path) -> None:
    files_in(tmp_path, "a b c d e\na\n", "x\ny\n")
    task = Multi30kTask(folder=tmp_path, vocab_size=300, max_len=10)
    assert len(task.encode(task.pairs("train"))) == 2
    task = Multi30kTask(folder=tmp_path, vocab_size=300, max_len=4)
    with pytest.raises(
        ValueError, match=r"tokens, wanted at most max_len=4: 'a b c d e'"
    ):
        task.encode(task.pairs("train"))


def test_with_the_vocabulary_of_a_checkpoint_no_data_are_needed(tmp_path: Path) -> None:
    saved = Multi30kTask(folder=files_in(tmp_path), vocab_size=300).vocabularies()
    bare = Multi30kTask(vocab_size=300)
    with pytest.raises(MissingDataError):
        bare.encode_source("A dog runs.")
    bare.set_vocabularies(saved)
    ids = bare.encode_source("A dog runs 🌳.")
    assert bare.target_vocabulary.decode(ids) == "a dog runs 🌳."


# --- from the network -----------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Serve two files as the repository would; yield the paths that were asked for."""
    asked: list[str] = []
    root = tmp_path / "served"
    task1 = root / multi30k.COMMIT / "data" / "task1"
    files_in(task1 / "raw")
    for name in ("train.en.gz", "train.de.gz"):
        content = (task1 / "raw" / name).read_bytes()
        monkeypatch.setitem(SHA256, f"raw/{name}", hashlib.sha256(content).hexdigest())

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            asked.append(self.path)

    serve = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Handler, directory=str(root))
    )
    threading.Thread(target=serve.serve_forever, args=(0.02,), daemon=True).start()
    address = f"http://127.0.0.1:{serve.server_address[1]}"
    monkeypatch.setattr(multi30k, "_ADDRESS", address)
    yield asked
    serve.shutdown()
    serve.server_close()


def test_files_come_from_the_commit_once(repository: list[str], tmp_path: Path) -> None:
    assert len(Multi30kTask().pairs("train")) == 2
    wanted = [
        f"/{multi30k.COMMIT}/data/task1/raw/train.{side}.gz" for side in ("en", "de")
    ]
    assert repository == wanted
    assert len(Multi30kTask().pairs("train")) == 2
    assert repository == wanted
    assert (tmp_path / "cache" / "multi30k" / "raw" / "train.en.gz").is_file()


def test_without_network_one_sentence_says_what_to_do() -> None:
    for variant, file in (
        ("raw", "raw/train.en.gz"),
        ("tok", "tok/train.lc.norm.tok.en"),
    ):
        with pytest.raises(MissingDataError) as caught:
            load_task("multi30k", variant=variant).pairs("train")
        message = str(caught.value)
        assert message.startswith("Multi30k is not at hand: http://127.0.0.1:9/")
        for part in (
            "no connection",
            f"put {file} and the like",
            multi30k.REPOSITORY,
            "TRANSFORMER_LIB_MULTI30K",
        ):
            assert part in message
        assert "\n" not in message


def test_each_file_of_each_split_has_its_sum() -> None:
    assert len(SHA256) == len(set(SHA256.values())) == 20
    assert all(len(sum_) == 64 and int(sum_, 16) for sum_ in SHA256.values())
    for task in (Multi30kTask(), Multi30kTask(variant="tok")):
        for split in task.splits:
            with pytest.raises(MissingDataError):  # a KeyError if the sum were missing
                task.pairs(split)


@pytest.mark.data
def test_the_repository_has_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for variant, lengths in (("raw", [29_000, 1014, 1000, 1000, 461]), ("tok", None)):
        task = load_task("multi30k", variant=variant)
        found = [len(task.pairs(split)) for split in task.splits]
        assert found == (lengths or [29_000, 1014, 1000, 1000, 461])


# --- scores ---------------------------------------------------------------------------


def test_bleu_of_a_hundred_is_a_perfect_copy_in_whatever_case() -> None:
    pairs = [Pair("", "Der Hund läuft über die Wiese."), Pair("", "Ein Hut.")]
    score = bleu(["der hund läuft über die wiese.", "EIN HUT."], pairs)
    assert score["bleu"] == pytest.approx(100.0)


def test_bleu_by_hand() -> None:
    """5 of 6 words, 3 of 5 pairs, 2 of 4 triples, 1 of 3 fours; same length."""
    score = bleu(["a b c d x f"], [Pair("", "a b c d e f")], tokenised=True)
    expected = 100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25
    assert score["bleu"] == pytest.approx(expected)


def test_signatures_tell_the_two_ways_apart() -> None:
    pairs = [Pair("", "ein hund , der läuft .")]
    written = ["ein hund, der läuft."]
    raw, tokenised = bleu(written, pairs), bleu(written, pairs, tokenised=True)
    assert str(raw["signature"]).startswith("nrefs:1|case:lc|eff:no|tok:13a|smooth:exp")
    assert "|tok:none|" in str(tokenised["signature"])
    assert raw["bleu"] == pytest.approx(100.0)
    assert float(tokenised["bleu"]) < 50.0


def test_the_variant_decides_how_a_task_scores() -> None:
    pairs = [Pair("", "ein hund , der läuft .")]
    written = ["ein hund, der läuft."]
    for variant, tokenised in (("raw", False), ("tok", True)):
        score = load_task("multi30k", variant=variant).score(written, pairs)
        assert score == bleu(written, pairs, tokenised=tokenised)


def test_without_sacrebleu_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"pip install 'transformer-lib\[training\]'"
    ):
        bleu(["a"], [Pair("", "a")])


# --- bad input ------------------------------------------------------------------------


@pytest.mark.no_shape_hook
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocab_size": 258}, "vocab_size: got 258, wanted 259 or more"),
        ({"variant": "bpe"}, "variant: got 'bpe', wanted 'raw' or 'tok'"),
        ({"max_len": 2}, "max_len: got 2, wanted 3 or more"),
        ({"language": "fr"}, "language: the task multi30k has no such option"),
    ],
)
def test_impossible_options_are_refused(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        load_task("multi30k", **options)
