"""Language model: a network with long short-term memory that predicts the next word of generated English.

Stands for Gavel's and Synergy's LM and LSTM: hardly any preparation, so it needs one CPU beside its device and no more.

    rota workloads train language_model
    rota submit --profile language_model --steps 5000 -- rota workloads train language_model
"""

import example_job
import numpy as np
import torch
from torch import nn

ONE = ["cat", "dog", "child", "teacher", "robot", "farmer"]
MANY = ["cats", "dogs", "children", "teachers", "robots", "farmers"]
SEES = ["sees", "likes", "follows", "teaches", "paints", "hears"]
SEE = ["see", "like", "follow", "teach", "paint", "hear"]
KINDS = ["old", "red", "happy", "quiet", "tall", "clever"]
OTHERS = ["a", "the", "every", "some", "two", "all", "and", "because", "today", "."]
WORDS = [*ONE, *MANY, *SEES, *SEE, *KINDS, *OTHERS]
NUMBER_OF = {word: number for number, word in enumerate(WORDS)}
LENGTH = 33
GOAL = example_job.Goal(metric="perplexity relative to that of word counts", target=0.5, steps=250, at_most=True)


def phrase(random):
    """A noun with its article and maybe an adjective, and whether it is one or many."""
    many = random.random() < 0.5
    article = random.choice(["the", "some", "two", "all"] if many else ["a", "the", "every"])
    kind = [random.choice(KINDS)] if random.random() < 0.4 else []
    return [article, *kind, random.choice(MANY if many else ONE)], many


def make(_index, random):
    """A text of 33 words, a byte for each: verbs agree with their subjects."""
    words = []
    while len(words) < LENGTH:
        subject, many = phrase(random)
        words += [*subject, random.choice(SEE if many else SEES), *phrase(random)[0]]
        words.append(random.choice([".", "and", "because", "today"], p=[0.5, 0.2, 0.2, 0.1]))
    return bytes(NUMBER_OF[word] for word in words[:LENGTH])


def decode(raw, _index, _random):
    """Numbers of words, and of those that follow them."""
    text = torch.from_numpy(np.frombuffer(raw, np.uint8).astype(np.int64))
    return text[:-1], text[1:]


class Model(nn.Module):
    """Two layers of 128."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(len(WORDS), 64)
        self.layers = nn.LSTM(64, 128, num_layers=2, batch_first=True, dropout=0.1)
        self.next_word = nn.Linear(128, len(WORDS))

    def forward(self, text):
        """A score of every word for every place."""
        return self.next_word(self.layers(self.words(text))[0]).transpose(1, 2)


def main():
    """Train, and compare the perplexity on unseen text with that of a model which only counts words."""
    chosen = example_job.options(__doc__, GOAL, batch=32)
    items = example_job.Items(name="language_model", count=4000, make=make, decode=decode)
    model = Model().to(example_job.DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

    def step(batch):
        text, following = batch
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(text), following)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    def perplexity():
        text, following = items.unseen(300)
        model.eval()
        loss = nn.functional.cross_entropy(model(text.to(example_job.DEVICE)).cpu(), following)
        counts = torch.bincount(following.flatten(), minlength=len(WORDS)).float()
        share = counts[counts > 0] / counts.sum()
        return (loss + (share * share.log()).sum()).exp().item()

    example_job.train(chosen, items, {"model": model, "optimizer": optimizer}, step, perplexity)


if __name__ == "__main__":
    main()
