import { App } from 'aws-cdk-lib';

import { RedeliverPropsError } from '../lib/props-error';
import { RedeliverStack } from '../lib/stack';

try {
  // Paths in context values are relative to the directory in which the user ran npm or cargo.
  new RedeliverStack(new App(), process.env.INIT_CWD ?? process.cwd());
} catch (error) {
  if (!(error instanceof RedeliverPropsError)) {
    throw error;
  }
  // Prints sentences instead of a stack trace. Exits immediately, since the app would otherwise synthesize an
  // incomplete stack.
  console.error(error.message.replaceAll(/^/gm, 'error: '));
  process.exit(2);
}
