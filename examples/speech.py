"""Speech: commands of one second as WAV files, classified by a convolutional network over samples (M5).

Stands for Synergy's M5 and DeepSpeech: 64 MB are read with little work on them, so memory for their cache counts.

    rota workloads train speech
    rota submit --profile speech --steps 5000 -- rota workloads train speech
"""

import io
import wave

import example_job
import numpy as np
import torch
from torch import nn

WORDS = 8
RATE = 16_000
GOAL = example_job.Goal(metric="accuracy", target=0.95, steps=200)


def make(index, random):
    """A word is two vowels, each with two formants over a voice of some pitch, in noise: 32 kB of WAV."""
    seconds = np.arange(RATE) / RATE
    first, second = index % WORDS // 3, index % WORDS % 3
    formants = np.array([(300, 2300), (500, 1000), (750, 1400)])
    change = random.uniform(0.4, 0.6)
    spoken = np.where(seconds[:, None] < change, formants[first], formants[second])
    pitch = random.uniform(90, 220)
    voice = 0.5 + 0.5 * np.sin(2 * np.pi * pitch * seconds)
    sound = sum(np.sin(2 * np.pi * np.cumsum(spoken[:, i]) / RATE * random.uniform(0.95, 1.05)) for i in (0, 1))
    samples = voice * sound + random.normal(0, 1.5, RATE)
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes((samples * 6000).clip(-32768, 32767).astype("<i2").tobytes())
    return file.getvalue()


def decode(raw, index, random):
    """Samples from -1 to 1, shifted in time by up to a tenth of a second."""
    with wave.open(io.BytesIO(raw)) as file:
        samples = np.frombuffer(file.readframes(RATE), "<i2").astype(np.float32) / 16384
    shifted = np.roll(samples, int(random.integers(-RATE // 10, RATE // 10)))
    return torch.from_numpy(shifted)[None], index % WORDS


def network():
    """M5: a long first kernel over samples, then short ones, each followed by pooling."""
    layers = [nn.Conv1d(1, 16, 80, stride=16), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(4)]
    for before, after in ((16, 32), (32, 64)):
        layers += [nn.Conv1d(before, after, 3), nn.BatchNorm1d(after), nn.ReLU(), nn.MaxPool1d(4)]
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(WORDS))


def main():
    """Train, and measure the accuracy on recordings that were not heard."""
    chosen = example_job.options(__doc__, GOAL, batch=32)
    items = example_job.Items(name="speech", count=2000, make=make, decode=decode, cold=True)
    model = network()
    model(torch.zeros(2, 1, RATE))  # the size of the last layer follows from the first batch
    model.to(example_job.DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

    def step(batch):
        sounds, words = batch
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(sounds), words)
        loss.backward()
        optimizer.step()
        return loss

    def accuracy():
        sounds, words = items.unseen(400)
        model.eval()
        return (model(sounds.to(example_job.DEVICE)).argmax(1).cpu() == words).float().mean().item()

    example_job.train(chosen, items, {"model": model, "optimizer": optimizer}, step, accuracy)


if __name__ == "__main__":
    main()
