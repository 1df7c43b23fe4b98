// A draw that is keyed, not random: as `backoff.rs` of the Rust functions makes it.

/** What a draw is keyed by. */
export interface Key {
  /** A hyphenated UUID. */
  readonly messageId: string;
  readonly generation: number;
  readonly attempt: number;
}

/** A number from `low` to `high`: the key's first word `x` becomes `low + ((x * (high - low + 1)) >> 64)`. */
export function spread(key: Key, low: number, high: number): number {
  return low + Number((firstWord(key) * BigInt(high - low + 1)) >> 64n);
}

/** Of ChaCha8, whose key is the 16 bytes of the id, generation and attempt (little-endian), and `redelivr`. */
function firstWord({ messageId, generation, attempt }: Key): bigint {
  const seed = Buffer.alloc(32, 'redelivr');
  seed.write(messageId.replaceAll('-', ''), 'hex');
  seed.writeUInt32LE(generation, 16);
  seed.writeUInt32LE(attempt, 20);
  // "expand 32-byte k", the key, and a counter and a nonce of 0.
  const state = new Uint32Array([0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, ...Array<number>(12).fill(0)]);
  for (let word = 0; word < 8; word += 1) {
    state[4 + word] = seed.readUInt32LE(4 * word);
  }
  const block = Uint32Array.from(state);
  for (let round = 0; round < 4; round += 1) {
    for (let column = 0; column < 4; column += 1) {
      quarter(block, column, 4 + column, 8 + column, 12 + column);
    }
    for (let diagonal = 0; diagonal < 4; diagonal += 1) {
      quarter(block, diagonal, 4 + ((diagonal + 1) % 4), 8 + ((diagonal + 2) % 4), 12 + ((diagonal + 3) % 4));
    }
  }
  const word = (at: number) => BigInt(((block[at] as number) + (state[at] as number)) >>> 0);
  return word(0) | (word(1) << 32n);
}

function quarter(block: Uint32Array, a: number, b: number, c: number, d: number): void {
  const step = (to: number, from: number, rotated: number, by: number) => {
    block[to] = (block[to] as number) + (block[from] as number);
    const mixed = (block[rotated] as number) ^ (block[to] as number);
    block[rotated] = (mixed << by) | (mixed >>> (32 - by));
  };
  step(a, b, d, 16);
  step(c, d, b, 12);
  step(a, b, d, 8);
  step(c, d, b, 7);
}
