/** Returns the known name closest to an unknown one, if fewer than a third of its characters are wrong. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  const lower = name.toLowerCase();
  const [found] = known
    .map((other) => ({ other, edits: editDistance(lower, other.toLowerCase()) }))
    .filter((near) => 3 * near.edits < name.length)
    .sort((one, other) => one.edits - other.edits);
  return found?.other;
}

/** Returns the Levenshtein distance. */
function editDistance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [index, character] of [...one].entries()) {
    row = row.reduce<number[]>((next, above, column) => {
      const left = next[column - 1];
      const changed = (row[column - 1] ?? 0) + Number(character !== other[column - 1]);
      return [...next, left === undefined ? index + 1 : Math.min(left + 1, above + 1, changed)];
    }, []);
  }
  return row.at(-1) ?? 0;
}
