"""Image classification, ImageNet-like: JPEG decoding and random crops in worker processes, a small MobileNet.

Stands for ResNet-50 and AlexNet of Gavel and Synergy: preparation needs more CPU time than training.

    rota workloads train imagenet
    rota submit --profile imagenet --steps 5000 -- rota workloads train imagenet --workers 2
"""

import io

import example_job
import numpy as np
import torch
from PIL import Image
from torch import nn

CLASSES = 8
SIDE = 256
SEEN = 48
GOAL = example_job.Goal(metric="accuracy", target=0.95, steps=200)


def make(index, random):
    """A JPEG with waves in one of eight directions over clouds of colour; the class is the direction."""
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    angle = np.pi * (index % CLASSES + random.uniform(-0.2, 0.2)) / CLASSES
    waves = np.sin(2 * np.pi * random.uniform(6, 10) * (x * np.cos(angle) + y * np.sin(angle)) + random.uniform(0, 6))
    clouds = random.uniform(40, 215, (4, 4, 3)).astype(np.uint8)
    colours = np.asarray(Image.fromarray(clouds).resize((SIDE, SIDE), Image.Resampling.BICUBIC), dtype=float)
    picture = colours + 35 * waves[..., None] + random.normal(0, 12, (SIDE, SIDE, 1))
    file = io.BytesIO()
    Image.fromarray(picture.clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=85)
    return file.getvalue()


def decode(raw, index, random):
    """The whole picture is decoded; a random quarter to all of it is scaled down."""
    picture = Image.open(io.BytesIO(raw)).convert("RGB")
    side = int(random.integers(SIDE // 2, SIDE + 1))
    left, top = random.integers(0, SIDE - side + 1, 2).tolist()
    seen = picture.resize((SEEN, SEEN), Image.Resampling.BILINEAR, (left, top, left + side, top + side))
    pixels = np.asarray(seen, dtype=np.float32).transpose(2, 0, 1) / 128 - 1
    return torch.from_numpy(np.ascontiguousarray(pixels)), index % CLASSES


def block(before, after, stride):
    """MobileNet's: a convolution per channel, then one over channels."""
    return nn.Sequential(
        nn.Conv2d(before, before, 3, stride=stride, padding=1, groups=before, bias=False),
        nn.BatchNorm2d(before),
        nn.ReLU(),
        nn.Conv2d(before, after, 1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(),
    )


def network():
    """48 x 48 to 6 x 6 pixels, 16 to 64 channels."""
    first = [nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
    blocks = [block(16, 32, 2), block(32, 32, 1), block(32, 64, 2)]
    return nn.Sequential(*first, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))


def main():
    """Train, and measure the accuracy on pictures that were not seen."""
    chosen = example_job.options(__doc__, GOAL, batch=32, workers=2)
    items = example_job.Items(name="imagenet", count=2000, make=make, decode=decode, cold=True)
    model = network().to(example_job.DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.004)

    def step(batch):
        pictures, labels = batch
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(pictures), labels)
        loss.backward()
        optimizer.step()
        return loss

    def accuracy():
        pictures, labels = items.unseen(400)
        model.eval()
        return (model(pictures.to(example_job.DEVICE)).argmax(1).cpu() == labels).float().mean().item()

    example_job.train(chosen, items, {"model": model, "optimizer": optimizer}, step, accuracy)


if __name__ == "__main__":
    main()
