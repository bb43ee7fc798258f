"""The text: which files, which documents are held out, the tokenizer, the training batches."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor

if TYPE_CHECKING:
    from .recipe import Training

BOS, END = "<s>", "<|endoftext|>"  # ids 0 and 1
BOS_ID, END_ID = 0, 1
VOCABULARY = 1024

# The folder with these files is the recipe's argument; a file that differs is refused, because the
# numbers on the cards were measured on models trained on exactly these bytes.
SHA256 = {
    "children_lit.txt": "9a87cc6bf98456e564b2d36b0a87985ad4db17a2f96ed4eeca0c4574ab5d8c1f",
    "storybooks_ccby.txt": "3d45cb1d288af8d3e3b875717af246d324f8433b7b735880fc2ba0eb70893a56",
}
HELD_OUT_EVERY = 12  # every 12th document is never trained on
PASSAGE_CHARACTERS = 320  # at least 64 tokens of the tokenizer, whatever the prose


def documents(corpora: Path) -> tuple[list[str], list[str], list[str]]:
    """Training documents, held-out documents, held-out documents in the public domain."""
    train: list[str] = []
    held: dict[str, list[str]] = {}
    for name, expected in SHA256.items():
        data = (corpora / name).read_bytes()
        found = hashlib.sha256(data).hexdigest()
        if found != expected:
            raise ValueError(f"{name}: sha256 is {found}, expected {expected}")
        texts = [text.strip() for text in data.decode("ascii").split(END) if text.strip()]
        held[name] = texts[HELD_OUT_EVERY - 1 :: HELD_OUT_EVERY]
        train += [t for i, t in enumerate(texts) if i % HELD_OUT_EVERY != HELD_OUT_EVERY - 1]
    return train, sum(held.values(), []), held["children_lit.txt"]


def passages(texts: list[str], count: int) -> list[str]:
    """`count` passages, evenly spread over the texts, each starting with a paragraph."""
    starts = [
        paragraph
        for text in texts
        for paragraph in text.split("\n")
        if len(paragraph) >= PASSAGE_CHARACTERS
    ]
    step = len(starts) / count
    chosen = [starts[int((i + 0.5) * step)] for i in range(count)]
    # cut at the last space, so that no passage ends inside a word
    return [p[: PASSAGE_CHARACTERS + 1].rsplit(" ", 1)[0] for p in chosen]


def train_tokenizer(texts: list[str]) -> Tokenizer:
    """Byte-level BPE: any byte sequence can be written, so there is no unknown token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=[BOS, END],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, BOS_ID)]
    )
    return tokenizer


class Corpus:
    """Tokenizer, training stream and held-out passages. Made once, then read from `cache`."""

    def __init__(self, corpora: Path, cache: Path) -> None:
        cache.mkdir(parents=True, exist_ok=True)
        if not (cache / "stream.npy").exists():
            self._make(corpora, cache)
        self.tokenizer_file = cache / "tokenizer.json"
        self.tokenizer = Tokenizer.from_file(str(self.tokenizer_file))
        self.held_out: list[str] = json.loads((cache / "heldout.json").read_text())
        self.stream = torch.from_numpy(np.load(cache / "stream.npy").astype(np.int64))

    @staticmethod
    def _make(corpora: Path, cache: Path) -> None:
        train, _, public = documents(corpora)
        tokenizer = train_tokenizer(train)
        tokenizer.save(str(cache / "tokenizer.json"))
        (cache / "heldout.json").write_text(json.dumps(passages(public, 100), indent=0) + "\n")
        stream: list[int] = []
        for encoding in tokenizer.encode_batch(train, add_special_tokens=False):
            stream += encoding.ids + [END_ID]
        np.save(cache / "stream.npy", np.array(stream, dtype=np.uint16))

    def ids(self, tokens: tuple[str, ...]) -> list[int]:
        """Ids by name; a name that the vocabulary lacks is the token beside it."""
        found = (self.tokenizer.token_to_id(token) for token in tokens)
        return [VOCABULARY if id is None else id for id in found]

    def batch(self, seed: int, step: int, sequences: int, T: int, front: list[int],
              training: "Training") -> tuple[Tensor, Tensor]:
        """`front` and text from a random place, [sequences, T+1] in all, and as much noise in 0..1.
        They depend on seed and step alone, so that variants read the same text and a resumed run
        needs no generator state."""
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        stream = self.stream[: training.tokens]
        starts = torch.randint(len(stream) - T, (sequences, 1), generator=generator)
        text = stream[starts + torch.arange(T + 1 - len(front))]
        noise = torch.rand(sequences, T + 2, generator=generator)
        if training.random_first:
            text[:, 0] = (noise[:, -1] * VOCABULARY).long()
        return torch.cat([torch.tensor(front, dtype=torch.long).expand(sequences, -1), text], 1), noise

    def held_out_ids(self, count: int, T: int, front: list[int]) -> Tensor:
        """The first T tokens, `front` among them, of the first `count` passages, [count, T]."""
        return encode(self.tokenizer, self.held_out[:count], T, front)


def encode(tokenizer: Tokenizer, texts: list[str], T: int, front: list[int]) -> Tensor:
    """The first T ids of each text behind `front`, [len(texts), T]"""
    bare = (tokenizer.encode(text, add_special_tokens=False).ids for text in texts)
    return torch.tensor([(front + ids)[:T] for ids in bare])
