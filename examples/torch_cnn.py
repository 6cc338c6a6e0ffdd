"""A small convolutional network in PyTorch that runs under Rota, on one process or several (DDP).

    python examples/torch_cnn.py --steps 200                                 # alone
    torchrun --nproc-per-node 2 examples/torch_cnn.py --steps 200 --cpu      # two ranks, without Rota

Rota sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for a gang, so `init_process_group` needs nothing else. The
ranks of a gang stop on the same step; rank 0 saves for all. What makes it a job for Rota is marked with (1) to (4).
"""

import argparse
import os
from pathlib import Path

import torch
from torch import distributed, nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import rota.client  # (1)

IMAGES, SIDE, CLASSES = 2048, 16, 4


def data(seed):
    """Noise with a bright square in one of four corners; the class is the corner."""
    draw = torch.Generator().manual_seed(seed)
    images = torch.rand(IMAGES, 1, SIDE, SIDE, generator=draw)
    corners = torch.randint(CLASSES, (IMAGES,), generator=draw)
    for image, corner in zip(images, corners.tolist(), strict=True):
        top, left = 8 * (corner // 2), 8 * (corner % 2)
        image[0, top : top + 8, left : left + 8] += 0.15
    return TensorDataset(images, corners)


def network():
    """Two convolutions and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.LazyLinear(CLASSES),
    )


def main():
    """Train, and print the loss now and then."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--workers", type=int, default=0, help="processes that load data")
    options.add_argument("--cpu", action="store_true", help="do not use a GPU")
    options.add_argument("--out", type=Path, help="write the final weights to this file")
    chosen = options.parse_args()

    world = int(os.environ.get("WORLD_SIZE", "1"))
    rank, local = int(os.environ.get("RANK", "0")), int(os.environ.get("LOCAL_RANK", "0"))
    gpu = torch.cuda.is_available() and not chosen.cpu
    device = torch.device("cuda", local % torch.cuda.device_count()) if gpu else torch.device("cpu")
    if world > 1:
        distributed.init_process_group("nccl" if gpu else "gloo")

    torch.manual_seed(chosen.seed)
    model = network().to(device)
    model(torch.zeros(1, 1, SIDE, SIDE, device=device))
    trained = nn.parallel.DistributedDataParallel(model) if world > 1 else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

    def save(path):  # (2) write everything the next attempt needs into this folder
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path / "state.pt")

    def load(path):  # (3) and read it back, on every rank
        state = torch.load(path / "state.pt", map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    # The sampler draws its order from seed and epoch; the iterator tells it the epoch, so a resumed job goes on in the
    # same order.
    images = data(chosen.seed)
    sampler = DistributedSampler(images, num_replicas=world, rank=rank, seed=chosen.seed)
    loader = DataLoader(images, batch_size=32, sampler=sampler, num_workers=chosen.workers)

    it = rota.client.Iterator(loader, save=save, load=load, steps=chosen.steps)  # (4)
    if it.resumed:
        print(f"rank {it.rank} resumed at step {it.step} from {it.resumed.name}", flush=True)
    for inputs, labels in it:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(trained(inputs.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        if it.rank == 0 and (it.step + 1) % 20 == 0:
            print(f"step {it.step + 1} epoch {it.epoch} loss {loss.item():.4f}", flush=True)
    print(f"rank {it.rank} ended at step {it.step}: {it.stopped}", flush=True)

    if chosen.out is not None and it.stopped == "done" and it.rank == 0:
        torch.save(model.state_dict(), chosen.out)
    if world > 1:
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
