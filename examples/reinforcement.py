"""Reinforcement learning: synchronous advantage actor-critic (A2C) that finds the way through small rooms.

Stands for Gavel's A3C, whose asynchronous workers could not be resumed exactly. A step plays one game in each room of a
batch and learns from them; the rooms are the data set.

    rota workloads train reinforcement
    rota submit --profile reinforcement --steps 5000 -- rota workloads train reinforcement
"""

import example_job
import numpy as np
import torch
from torch import nn

SIDE = 5
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
TURNS = 12
DISCOUNT = 0.9
GOAL = example_job.Goal(metric="games won", target=0.8, steps=800)


def make(_index, random):
    """A room of 5 x 5 fields, a byte each: 1 is a wall; then the fields of player and exit."""
    room = (random.random((SIDE, SIDE)) < 0.1).astype(np.uint8)
    player, way_out = random.choice(SIDE * SIDE, 2, replace=False)
    room.flat[[player, way_out]] = 0
    return room.tobytes() + bytes([player, way_out])


def decode(raw, _index, _random):
    """The walls, and where player and exit are."""
    numbers = np.frombuffer(raw, np.uint8).astype(np.int64)
    return torch.from_numpy(numbers[:-2].reshape(SIDE, SIDE).copy()), torch.from_numpy(numbers[-2:].copy())


class Player(nn.Module):
    """Sees walls, itself and the exit; says how good each move and the whole position is."""

    def __init__(self):
        super().__init__()
        self.seen = nn.Sequential(
            nn.Flatten(), nn.Linear(3 * SIDE * SIDE, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU()
        )
        self.moves = nn.Linear(64, len(MOVES))
        self.value = nn.Linear(64, 1)

    def forward(self, walls, places):
        """Scores of the moves, and the value."""
        fields = nn.functional.one_hot(places, SIDE * SIDE).view(-1, 2, SIDE, SIDE)
        thought = self.seen(torch.cat([walls[:, None], fields], 1).float())
        return self.moves(thought), self.value(thought)[:, 0]


def moved(walls, places, action):
    """Where the players are after their moves: walls and the edge of the room hold them."""
    across = torch.tensor(MOVES, device=walls.device)[action]
    target = torch.stack([places[:, 0] // SIDE, places[:, 0] % SIDE], 1) + across
    inside = ((target >= 0) & (target < SIDE)).all(1)
    field = (target.clamp(0, SIDE - 1) * torch.tensor([SIDE, 1], device=walls.device)).sum(1)
    free = inside & (walls.flatten(1).gather(1, field[:, None])[:, 0] == 0)
    return torch.stack([torch.where(free, field, places[:, 0]), places[:, 1]], 1)


def play(player, walls, places, choose):
    """One game per room: for every turn the logarithm of the move's chance, entropy, value, won now, still playing."""
    turns = []
    playing = torch.ones(len(walls), dtype=torch.bool, device=walls.device)
    for _ in range(TURNS):
        scores, value = player(walls, places)
        chances = scores.log_softmax(1)
        action = choose(chances)
        places = moved(walls, places, action)
        won = playing & (places[:, 0] == places[:, 1])
        entropy = -(chances.exp() * chances).sum(1)
        turns.append((chances.gather(1, action[:, None])[:, 0], entropy, value, won.float(), playing.float()))
        playing = playing & ~won
    return [torch.stack(column) for column in zip(*turns, strict=True)]


def main():
    """Train, and count the games that the player wins in rooms it has not seen."""
    chosen = example_job.options(__doc__, GOAL, batch=128)
    items = example_job.Items(name="reinforcement", count=6000, make=make, decode=decode)
    player = Player().to(example_job.DEVICE)
    optimizer = torch.optim.Adam(player.parameters(), lr=0.003)

    def step(batch):
        draw = lambda chances: torch.multinomial(chances.exp(), 1)[:, 0]  # noqa: E731 - what `play` asks for a move
        chance, entropy, value, won, playing = play(player, *batch, draw)
        reward = won - 0.01 * playing
        gained = torch.zeros_like(reward)
        for turn in reversed(range(TURNS)):
            later = gained[turn + 1] if turn + 1 < TURNS else 0.0
            gained[turn] = reward[turn] + DISCOUNT * later
        advantage = (gained - value) * playing
        loss = (
            -(chance * advantage.detach()) + 0.5 * advantage.square() - 0.02 * entropy * playing
        ).sum() / playing.sum()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(player.parameters(), 0.5)
        optimizer.step()
        return loss

    def games_won():
        walls, places = (part.to(example_job.DEVICE) for part in items.unseen(500))
        return play(player, walls, places, lambda chances: chances.argmax(1))[3].sum().item() / 500

    example_job.train(chosen, items, {"player": player, "optimizer": optimizer}, step, games_won)


if __name__ == "__main__":
    main()
