import { type App, Stack } from 'aws-cdk-lib';

import { propsOfContext } from './context';
import { nameProblems, namesOf } from './names';
import { Redeliver } from './redeliver';

/** The app's only stack: a `Redeliver` with props from context values, and the queues' URLs as outputs. */
export class RedeliverStack extends Stack {
  /**
   * @param directory the base directory of relative paths in context values.
   * @throws RedeliverPropsError with all invalid context values.
   */
  constructor(app: App, directory: string) {
    super(app, 'Redeliver', {
      stackName: stackNameOf(app),
      description: 'redeliver: delayed, jittered retries for SQS and Lambda',
    });
    new Redeliver(this, 'Redeliver', propsOfContext(this, directory)).addOutputs();
  }
}

/**
 * Returns the prefix of the queues' names, so that each prefix and stage has its own stack. The construct reports an
 * invalid name.
 */
function stackNameOf(app: App): string {
  const names = namesOf(app.node.tryGetContext('prefix') || undefined, app.node.tryGetContext('stage') || undefined);
  return nameProblems(names).length > 0 ? 'Redeliver' : names.prefix;
}
