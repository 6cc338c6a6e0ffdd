"""Image classification, CIFAR-like: small PNG files with ten kinds of textures, a residual network of eight layers.

Stands for Gavel's ResNet-18: training needs far more time than preparation.

    rota workloads train cifar
    rota submit --profile cifar --steps 5000 -- rota workloads train cifar
"""

import io

import example_job
import numpy as np
import torch
from PIL import Image
from torch import nn

CLASSES = 10
SIDE = 32
GOAL = example_job.Goal(metric="accuracy", target=0.90, steps=200)


def make(index, random):
    """A PNG: stripes of five widths, straight or crossed, in any colours and at any place, in noise."""
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    waves = 2 * (index % CLASSES // 2) + 3
    stripes = np.sin(2 * np.pi * waves * x + random.uniform(0, 6))
    if index % 2:
        stripes = stripes * np.sin(2 * np.pi * waves * y + random.uniform(0, 6))
    dark, light = random.uniform(0, 120, 3), random.uniform(135, 255, 3)
    picture = dark + (light - dark) * (stripes[..., None] + 1) / 2 + random.normal(0, 30, (SIDE, SIDE, 3))
    file = io.BytesIO()
    Image.fromarray(picture.clip(0, 255).astype(np.uint8)).save(file, "PNG")
    return file.getvalue()


def decode(raw, index, random):
    """Mirrored at random, from -1 to 1."""
    pixels = np.asarray(Image.open(io.BytesIO(raw)), dtype=np.float32).transpose(2, 0, 1) / 128 - 1
    mirrored = pixels[:, :, ::-1] if random.random() < 0.5 else pixels
    return torch.from_numpy(np.ascontiguousarray(mirrored)), index % CLASSES


class Residual(nn.Module):
    """Two convolutions beside a short cut."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.short_cut = nn.Conv2d(before, after, 1, stride=stride, bias=False)

    def forward(self, x):
        """Their sum."""
        return torch.relu(self.first(x) + self.short_cut(x))


def network():
    """ResNet-8."""
    first = [nn.Conv2d(3, 12, 3, padding=1, bias=False), nn.BatchNorm2d(12), nn.ReLU()]
    blocks = [Residual(12, 12, 1), Residual(12, 24, 2), Residual(24, 48, 2)]
    return nn.Sequential(*first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, CLASSES))


def main():
    """Train with dropout of pixels, and measure the accuracy on pictures that were not seen."""
    chosen = example_job.options(__doc__, GOAL, batch=64)
    items = example_job.Items(name="cifar", count=4000, make=make, decode=decode)
    model = network().to(example_job.DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.15, total_steps=max(chosen.steps, 2))

    def step(batch):
        pictures, labels = batch
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(nn.functional.dropout(pictures, 0.05)), labels)
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss

    def accuracy():
        pictures, labels = items.unseen(500)
        model.eval()
        return (model(pictures.to(example_job.DEVICE)).argmax(1).cpu() == labels).float().mean().item()

    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    example_job.train(chosen, items, parts, step, accuracy)


if __name__ == "__main__":
    main()
