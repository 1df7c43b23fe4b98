"""A draw that is keyed, not random: as ``backoff.rs`` of the Rust functions makes it."""

import struct

_MASK = 0xFFFF_FFFF


def spread(message_id: str, generation: int, attempt: int, low: int, high: int) -> int:
    """From ``low`` to ``high``: the key's first word ``x`` becomes ``low + ((x * (high - low + 1)) >> 64)``."""
    return low + ((_first_word(message_id, generation, attempt) * (high - low + 1)) >> 64)


def _first_word(message_id: str, generation: int, attempt: int) -> int:
    """Of ChaCha8, whose key is the 16 bytes of the id, generation and attempt (little-endian), and ``redelivr``."""
    key = struct.pack("<16sII8s", bytes.fromhex(message_id.replace("-", "")), generation, attempt, b"redelivr")
    # "expand 32-byte k", the key, and a counter and a nonce of 0.
    state = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key), 0, 0, 0, 0]
    block = list(state)
    for _ in range(4):
        for at in range(4):
            _quarter(block, at, 4 + at, 8 + at, 12 + at)
        for at in range(4):
            _quarter(block, at, 4 + (at + 1) % 4, 8 + (at + 2) % 4, 12 + (at + 3) % 4)
    low: int = (block[0] + state[0]) & _MASK
    high: int = (block[1] + state[1]) & _MASK
    return low | high << 32


def _quarter(block: list[int], a: int, b: int, c: int, d: int) -> None:
    for to, mixed_in, rotated, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        block[to] = (block[to] + block[mixed_in]) & _MASK
        mixed = block[rotated] ^ block[to]
        block[rotated] = (mixed << by | mixed >> (32 - by)) & _MASK
