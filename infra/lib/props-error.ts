/** Invalid props; the message has a sentence for each problem that says what to change. */
export class RedeliverPropsError extends Error {
  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.name = 'RedeliverPropsError';
  }
}

/** @throws RedeliverPropsError if there are problems. */
export function refuse(problems: readonly string[]): void {
  if (problems.length > 0) {
    throw new RedeliverPropsError(problems);
  }
}
