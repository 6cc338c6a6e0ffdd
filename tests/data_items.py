"""Raw items whose bytes say which item they are, and a count of what was read."""

import hashlib


def content(index, size):
    block = hashlib.sha256(str(index).encode()).digest()
    return (block * (size // len(block) + 1))[:size]


class NumberedItems:
    """Sizes differ, so that bytes and numbers of items are different fractions."""

    def __init__(self, count=400, least=500, spread=1000, fingerprint="numbered"):
        self.sizes = [least + (i * 7919) % spread for i in range(count)]
        self.fingerprint = fingerprint
        self.read_bytes = 0
        self.reads = []

    def __len__(self):
        return len(self.sizes)

    def __getitem__(self, index):
        self.reads.append(index)
        self.read_bytes += self.sizes[index]
        return content(index, self.sizes[index])

    @property
    def total(self):
        return sum(self.sizes)


def name_and_check(raw, index):
    """Decode an item: its number, if the bytes are right."""
    return index if raw == content(index, len(raw)) else None
