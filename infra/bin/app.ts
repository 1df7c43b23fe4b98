import { App } from 'aws-cdk-lib';

import { RedeliverPropsError } from '../lib/props-error';
import { RedeliverStack } from '../lib/stack';

try {
  // Paths are relative to where the user has called npm or cargo.
  new RedeliverStack(new App(), process.env.INIT_CWD ?? process.cwd());
} catch (error) {
  if (!(error instanceof RedeliverPropsError)) {
    throw error;
  }
  // Sentences for the user, not a stack trace; and at once, or the app would synthesize what there is of it.
  console.error(error.message.replaceAll(/^/gm, 'error: '));
  process.exit(2);
}
