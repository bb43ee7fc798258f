"""Makes the tokenizer, the training batches and the held-out passages."""

import argparse
import json
import os
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor

from .recipe import Training
from .text import BOS, BOS_ID, END, END_ID, LONG_CHARACTERS, VOCABULARY, documents, passages


def add_folders(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--corpora",
        type=Path,
        default=os.environ.get("SINKSCOPE_CORPORA"),
        help="folder with the text files (default: $SINKSCOPE_CORPORA)",
    )
    parser.add_argument("--runs", type=Path, default=Path("models/.runs"), help="folder for checkpoints and logs")


def require_corpora(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    if arguments.corpora is None:
        parser.error("--corpora is missing and $SINKSCOPE_CORPORA is not set")


def train_tokenizer(texts: list[str]) -> Tokenizer:
    """Trains a byte-level BPE, which encodes any bytes and needs no unknown token."""
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
    """The tokenizer, the training text as one stream of tokens, and the held-out passages. Makes them once, and then
    reads them from `cache`."""

    def __init__(self, corpora: Path, cache: Path) -> None:
        cache.mkdir(parents=True, exist_ok=True)
        if not (cache / "stream.npy").exists():
            self._build_cache(corpora, cache)
        self.tokenizer_file = cache / "tokenizer.json"
        self.tokenizer = Tokenizer.from_file(str(self.tokenizer_file))
        self.held_out: list[str] = json.loads((cache / "heldout.json").read_text())
        self.stream = torch.from_numpy(np.load(cache / "stream.npy").astype(np.int64))
        self._starts_by_length: dict[int, Tensor] = {}

    @staticmethod
    def _build_cache(corpora: Path, cache: Path) -> None:
        train_texts, public_texts = documents(corpora)
        tokenizer = train_tokenizer(train_texts)
        tokenizer.save(str(cache / "tokenizer.json"))
        for name, texts in {
            "heldout": passages(public_texts, 100),
            "heldout-long": passages(public_texts, 40, LONG_CHARACTERS),
        }.items():
            (cache / f"{name}.json").write_text(json.dumps(texts, indent=0) + "\n")
        stream: list[int] = []
        for encoding in tokenizer.encode_batch(train_texts, add_special_tokens=False):
            stream += encoding.ids + [END_ID]
        np.save(cache / "stream.npy", np.array(stream, dtype=np.uint16))

    def draw_batch(self, seed: int, step: int, sequences: int, T: int, training: Training) -> tuple[Tensor, Tensor]:
        """Returns front tokens with text from random positions, [sequences, T+1], and noise in 0..1, [sequences, T+2].
        Both depend on seed and step alone: variants read the same text, and a resumed run needs no generator state."""
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        stream = self.stream[: training.tokens]
        length = T + 1 - len(training.front)
        if training.one_document:
            positions = self._document_starts(length)
            starts = positions[torch.randint(len(positions), (sequences, 1), generator=generator)]
        else:
            starts = torch.randint(len(stream) - T, (sequences, 1), generator=generator)
        text = stream[starts + torch.arange(length)]
        noise = torch.rand(sequences, T + 2, generator=generator)
        if training.random_first:
            text[:, 0] = (noise[:, -1] * VOCABULARY).long()
        front = torch.tensor(training.front_ids, dtype=torch.long).expand(sequences, -1)
        text = torch.cat([front, text], 1)
        if training.fixed_at:
            text[:, training.fixed_at - 1] = fixed_id(self.tokenizer, training)
        return text, noise

    def _document_starts(self, length: int) -> Tensor:
        """Returns every position from which `length` tokens lie inside one document, whose end may be the last."""
        if length not in self._starts_by_length:
            ends = (self.stream == END_ID).long().cumsum(0)
            before = torch.cat([ends.new_zeros(1), ends])  # before[i]: documents that end before position i
            self._starts_by_length[length] = (before[length - 1 : -1] == before[:-length]).nonzero()[:, 0]
        return self._starts_by_length[length]


def fixed_id(tokenizer: Tokenizer, training: Training) -> int:
    id = tokenizer.token_to_id(training.fixed_token)
    if id is None:
        raise ValueError(f"fixed_token is {training.fixed_token!r}, expected an entry of the tokenizer")
    return id


def encode(tokenizer: Tokenizer, texts: list[str], T: int, training: Training) -> Tensor:
    """Returns the first T ids of each text, with the front tokens and fixed token of `training`, [len(texts), T]."""
    bare_ids = (tokenizer.encode(text, add_special_tokens=False).ids for text in texts)
    ids = torch.tensor([(training.front_ids + ids)[:T] for ids in bare_ids])
    if training.fixed_at:
        ids[:, training.fixed_at - 1] = fixed_id(tokenizer, training)
    return ids
