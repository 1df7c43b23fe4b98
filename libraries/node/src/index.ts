/**
 * Delayed retries of SQS messages for your own Lambda function: a handler of one message takes the message-processor's
 * place.
 *
 * ```ts
 * import { createHandler, PermanentError } from '@redeliver/handler';
 *
 * export const handler = createHandler<Order>(async (message) => {
 *   await charge(message.data, message.idempotencyKey);
 * });
 * ```
 */

import type { World } from './batch.ts';
import { Breaker } from './breaker.ts';
import { SYSTEM_CLOCK } from './clock.ts';
import { handlerIn, type Handle, type Handler, type LambdaContext } from './handler.ts';
import { readSettings } from './settings.ts';
import { newClient, sqsQueue, type SqsSender } from './sqs.ts';

export type { Attribute } from './attributes.ts';
export { PermanentError, RetryAfter, Snooze, Unavailable, type ErrorOptions } from './errors.ts';
export type { Handle, Handler, LambdaContext } from './handler.ts';
export type { Message } from './message.ts';
export type { SqsBatchResponse, SqsEvent, SqsRecord, SqsRecordAttribute, SqsSystemAttributes } from './record.ts';

export interface Options {
  /**
   * Instead of a client of our own. It should ask once (`maxAttempts: 1`): what can be tried again is tried again here.
   */
  readonly client?: SqsSender;
}

/**
 * The Lambda function of a queue, around a handler of one message. In Lambda the settings are read at once, and all
 * that is wrong with them is said in one error; elsewhere, as in a test that only imports the module, with the first
 * event.
 */
export function createHandler<Data = unknown, Context extends LambdaContext = LambdaContext>(
  handle: Handle<Data, Context>, options: Options = {},
): Handler<Context> {
  if (typeof handle !== 'function') {
    throw new TypeError('createHandler takes a handler of one message, such as async (message) => { … }');
  }
  let made: World | undefined;
  const world = () => (made ??= newWorld(options));
  if (process.env.AWS_LAMBDA_FUNCTION_NAME) {
    world();
  }
  return handlerIn(world, handle);
}

function newWorld({ client = newClient() }: Options): World {
  const settings = readSettings(process.env);
  const { circuitBreaker } = settings.policy;
  return {
    settings,
    queue: sqsQueue(client, settings.intermediateDlqUrl),
    clock: SYSTEM_CLOCK,
    breaker: circuitBreaker && new Breaker(circuitBreaker),
    // Not by the console, which writes a time and a request id before it: CloudWatch would find no metrics.
    write: (lines) => void process.stdout.write(lines),
  };
}
