"""Recommendation: an autoencoder that is given what a user liked and says what else the user will like.

Stands for Gavel's Recoder on MovieLens: short steps, many small items.

    rota workloads train recommendation
    rota submit --profile recommendation --steps 5000 -- rota workloads train recommendation
"""

import example_job
import numpy as np
import torch
from torch import nn

FILMS = 500
TASTES = 8
LIKED = 30
GIVEN = 20
FILM_TASTES = np.random.default_rng(5).dirichlet(np.full(TASTES, 0.15), FILMS)
FAME = np.random.default_rng(6).gamma(2.0, 1.0, FILMS)
GOAL = example_job.Goal(metric="recall among ten films, relative to the most popular ones", target=3.0, steps=300)


def make(_index, random):
    """Thirty films that a user liked, two bytes each: by the user's tastes and the films' fame."""
    tastes = random.dirichlet(np.full(TASTES, 0.15))
    chances = (FILM_TASTES @ tastes) ** 2 * FAME
    films = random.choice(FILMS, LIKED, replace=False, p=chances / chances.sum())
    return films.astype("<u2").tobytes()


def decode(raw, _index, random):
    """Twenty films that are given and ten to be found, which ones is drawn anew in each epoch."""
    films = random.permutation(np.frombuffer(raw, "<u2").astype(np.int64))
    return torch.from_numpy(films[:GIVEN].copy()), torch.from_numpy(films[GIVEN:].copy())


def marked(films):
    """A row per user with a 1 for each film."""
    return torch.zeros(len(films), FILMS, device=films.device).scatter_(1, films, 1.0)


def recall(scores, given, wanted):
    """Part of the wanted films among the ten best that were not given."""
    best = (scores - 1e9 * marked(given)).topk(10, 1).indices
    return (marked(best) * marked(wanted)).sum().item() / wanted.numel()


def main():
    """Train, and compare with recommending to everybody what most users liked."""
    chosen = example_job.options(__doc__, GOAL, batch=64)
    items = example_job.Items(name="recommendation", count=3000, make=make, decode=decode)
    layers = [nn.Linear(FILMS, 128), nn.Tanh(), nn.Dropout(0.3), nn.Linear(128, FILMS)]
    model = nn.Sequential(*layers).to(example_job.DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    popularity = nn.Parameter(torch.zeros(FILMS, device=example_job.DEVICE), requires_grad=False)
    counts = nn.ParameterDict({"popularity": popularity})

    def step(batch):
        given, wanted = batch
        optimizer.zero_grad()
        chances = torch.log_softmax(model(marked(given)), 1)
        loss = -(chances * marked(wanted)).sum(1).mean() / wanted.shape[1]
        loss.backward()
        optimizer.step()
        popularity.add_(marked(given).sum(0) + marked(wanted).sum(0))
        return loss

    def recall_over_popularity():
        given, wanted = (films.to(example_job.DEVICE) for films in items.unseen(500))
        model.eval()
        return recall(model(marked(given)), given, wanted) / recall(popularity.expand(500, -1), given, wanted)

    parts = {"model": model, "optimizer": optimizer, "counts": counts}
    example_job.train(chosen, items, parts, step, recall_over_popularity)


if __name__ == "__main__":
    main()
