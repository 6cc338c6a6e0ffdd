"""CycleGAN: pictures of horizontal blue stripes become vertical red ones and back, without pairs to learn from.

Stands for Gavel's CycleGAN: four networks, and a buffer of earlier pictures that is a part of the checkpoint.

    rota workloads train cyclegan
    rota submit --profile cyclegan --steps 5000 -- rota workloads train cyclegan
"""

import itertools

import example_job
import numpy as np
import torch
from torch import nn

SIDE = 16
KEPT = 64
BLUE = 2
RED = 0
GOAL = example_job.Goal(metric="pictures that are changed and come back", target=0.9, steps=250)


def make(_index, random):
    """Two pictures that have nothing to do with each other, one of each kind; a byte per colour of a pixel."""
    place = np.arange(SIDE)
    pictures = []
    for colour in (BLUE, RED):
        stripes = np.sin(2 * np.pi * place / random.uniform(4, 8) + random.uniform(0, 6))
        picture = random.normal(60, 10, (3, SIDE, SIDE))
        picture[colour] += 80 + 80 * (stripes[:, None] if colour else stripes[None, :])
        pictures.append(picture.clip(0, 255))
    return np.stack(pictures).astype(np.uint8).tobytes()


def decode(raw, _index, _random):
    """Both pictures, from -1 to 1."""
    both = torch.from_numpy(np.frombuffer(raw, np.uint8).reshape(2, 3, SIDE, SIDE).astype(np.float32)) / 128 - 1
    return both[0], both[1]


def generator():
    """From a picture to one of the other kind."""
    wide = [nn.Conv2d(3, 24, 5, padding=2), nn.InstanceNorm2d(24), nn.ReLU()]
    deep = [nn.Conv2d(24, 24, 5, padding=2), nn.InstanceNorm2d(24), nn.ReLU()]
    return nn.Sequential(*wide, *deep, nn.Conv2d(24, 3, 3, padding=1), nn.Tanh())


def critic():
    """A score for every patch of a picture: whether it is real."""
    layers = [nn.Conv2d(3, 24, 4, stride=2, padding=1), nn.LeakyReLU(0.2), nn.Conv2d(24, 1, 4, stride=2, padding=1)]
    return nn.Sequential(*layers)


class Buffer(nn.Module):
    """Made-up pictures of earlier steps: the critic sees one of them in half of the cases."""

    def __init__(self):
        super().__init__()
        self.register_buffer("pictures", torch.zeros(KEPT, 3, SIDE, SIDE))
        self.register_buffer("filled", torch.zeros(1, dtype=torch.int64))

    def mixed(self, made):
        """These pictures, some of them exchanged for earlier ones."""
        made = made.detach().clone()
        for picture in made:
            place = int(self.filled) if self.filled < KEPT else int(torch.randint(2 * KEPT, (1,)))
            if self.filled < KEPT:
                self.filled += 1
                self.pictures[place] = picture
            elif place < KEPT:
                earlier = self.pictures[place].clone()
                self.pictures[place] = picture
                picture.copy_(earlier)
        return made


class CycleGan(nn.Module):
    """Two generators, two critics, two buffers."""

    def __init__(self):
        super().__init__()
        self.makers = nn.ModuleList([generator(), generator()])
        self.critics = nn.ModuleList([critic(), critic()])
        self.buffers_of = nn.ModuleList([Buffer(), Buffer()])
        self.register_buffer("first_loss", torch.zeros(1))

    def cycle_loss(self, real):
        """How far a picture is from what it was, there and back again."""
        there = [self.makers[i](real[i]) for i in (0, 1)]
        return there, sum((self.makers[1 - i](there[i]) - real[i]).abs().mean((1, 2, 3)) for i in (0, 1))


def is_of_kind(pictures, colour):
    """Whether this colour is the brightest, and changes along the right direction and hardly along the other."""
    mean = pictures.mean((2, 3))
    along_rows, along_columns = (pictures[:, colour].mean(axis).std(1) for axis in (2, 1))
    right = along_rows > 2 * along_columns if colour == BLUE else along_columns > 2 * along_rows
    return (mean.argmax(1) == colour) & right


def main():
    """Train, and count unseen pictures that become the other kind and come back with 60 % less loss than at first."""
    chosen = example_job.options(__doc__, GOAL, batch=16)
    items = example_job.Items(name="cyclegan", count=1000, make=make, decode=decode)
    model = CycleGan().to(example_job.DEVICE)
    making = torch.optim.Adam(itertools.chain(*(m.parameters() for m in model.makers)), lr=0.002, betas=(0.5, 0.999))
    judging = torch.optim.Adam(model.critics.parameters(), lr=0.002, betas=(0.5, 0.999))

    def step(real):
        making.zero_grad()
        made, losses = model.cycle_loss(real)
        cycle = losses.mean()
        if not model.first_loss:
            model.first_loss.fill_(cycle.item())
        fooled = sum((model.critics[i](made[i]) - 1).square().mean() for i in (0, 1))
        (fooled + 10 * cycle).backward()
        making.step()
        judging.zero_grad()
        judged = [model.critics[i](model.buffers_of[i].mixed(made[i])).square().mean() for i in (0, 1)]
        known = [(model.critics[i](real[1 - i]) - 1).square().mean() for i in (0, 1)]
        sum(judged + known).backward()
        judging.step()
        return cycle

    def changed_and_back():
        made, losses = model.cycle_loss([pictures.to(example_job.DEVICE) for pictures in items.unseen(200)])
        changed = is_of_kind(made[0], RED) & is_of_kind(made[1], BLUE)
        return (changed & (losses < 0.4 * model.first_loss)).float().mean().item()

    parts = {"model": model, "making": making, "judging": judging}
    example_job.train(chosen, items, parts, step, changed_and_back)


if __name__ == "__main__":
    main()
