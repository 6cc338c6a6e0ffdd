"""Translation: a transformer with encoder and decoder, between two small languages with opposite word order.

Stands for Gavel's Transformer and Synergy's GNMT: hardly any preparation, much computing.

    rota workloads train translation
    rota submit --profile translation --steps 5000 -- rota workloads train translation
"""

import example_job
import numpy as np
import torch
from torch import nn

WORDS = 12
LENGTH = 7
BEGIN = WORDS
WIDTH = 64
DICTIONARY = np.random.default_rng(3).permutation(WORDS)
GOAL = example_job.Goal(metric="sentences translated without a mistake", target=0.95, steps=400)


def make(_index, random):
    """A sentence of seven words, a byte for each."""
    return random.integers(0, WORDS, LENGTH, dtype=np.uint8).tobytes()


def decode(raw, _index, _random):
    """The sentence and its translation: word by word with a dictionary, the last word first."""
    sentence = np.frombuffer(raw, np.uint8).astype(np.int64)
    translated = DICTIONARY[sentence][::-1]
    return torch.from_numpy(sentence.copy()), torch.from_numpy(translated.copy())


class Model(nn.Module):
    """Two layers that read and two that write, with learned positions."""

    def __init__(self):
        super().__init__()
        self.source = nn.Embedding(WORDS, WIDTH)
        self.target = nn.Embedding(WORDS + 1, WIDTH)
        self.place = nn.Parameter(torch.randn(2, LENGTH, WIDTH))
        reader = nn.TransformerEncoderLayer(WIDTH, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
        writer = nn.TransformerDecoderLayer(WIDTH, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(reader, 2, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(writer, 2)
        self.word = nn.Linear(WIDTH, WORDS)

    def forward(self, sentence, written):
        """Scores of the next word, after each word that is written."""
        read = self.encoder(self.source(sentence) + self.place[0])
        begin = torch.full_like(sentence[:, :1], BEGIN)
        before = torch.cat([begin, written], 1)[:, :LENGTH]
        future = torch.triu(torch.ones(before.shape[1], before.shape[1], dtype=torch.bool, device=read.device), 1)
        places = self.place[1, : before.shape[1]]
        return self.word(self.decoder(self.target(before) + places, read, tgt_mask=future))

    def translate(self, sentence):
        """Word by word, each time the one with the highest score."""
        written = sentence[:, :0]
        while written.shape[1] < LENGTH:
            written = torch.cat([written, self(sentence, written)[:, -1:].argmax(2)], 1)
        return written


def main():
    """Train, and count sentences that are translated without a mistake."""
    chosen = example_job.options(__doc__, GOAL, batch=64)
    items = example_job.Items(name="translation", count=4000, make=make, decode=decode)
    model = Model().to(example_job.DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.002)

    def step(batch):
        sentence, translated = batch
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(sentence, translated).transpose(1, 2), translated)
        loss.backward()
        optimizer.step()
        return loss

    def without_mistake():
        sentence, translated = items.unseen(400)
        model.eval()
        return (model.translate(sentence.to(example_job.DEVICE)).cpu() == translated).all(1).float().mean().item()

    example_job.train(chosen, items, {"model": model, "optimizer": optimizer}, step, without_mistake)


if __name__ == "__main__":
    main()
