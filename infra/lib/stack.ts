import { type App, Stack } from 'aws-cdk-lib';

import { propsOfContext } from './context';
import { nameProblems, namesOf } from './names';
import { Redeliver } from './redeliver';

/** The app's one stack: an orchestrator made from the context values, with the queues' URLs as outputs. */
export class RedeliverStack extends Stack {
  /**
   * @param directory what paths among the context values are relative to.
   * @throws RedeliverPropsError with all context values that are wrong.
   */
  constructor(app: App, directory: string) {
    super(app, 'Redeliver', {
      stackName: stackNameOf(app),
      description: 'redeliver: delayed, jittered retries for SQS and Lambda',
    });
    new Redeliver(this, 'Redeliver', propsOfContext(this, directory)).addOutputs();
  }
}

/** As the construct names its queues: one stack for each prefix and stage. A wrong name is reported with all that is wrong. */
function stackNameOf(app: App): string {
  const names = namesOf(app.node.tryGetContext('prefix') || undefined, app.node.tryGetContext('stage') || undefined);
  return nameProblems(names).length > 0 ? 'Redeliver' : names.prefix;
}
