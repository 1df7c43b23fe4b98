/** An error about invalid props. The message has one sentence per problem that says what to change. */
export class RedeliverPropsError extends Error {
  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.name = 'RedeliverPropsError';
  }
}

/** @throws RedeliverPropsError with all problems, if there are any. */
export function refuse(problems: readonly string[]): void {
  if (problems.length > 0) {
    throw new RedeliverPropsError(problems);
  }
}
