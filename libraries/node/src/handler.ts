// The entry of a Lambda function, around a handler of one message.

import { processBatch, type World } from './batch.ts';
import type { Message } from './message.ts';
import type { SqsBatchResponse, SqsEvent } from './record.ts';

/** As much of Lambda's context as is read. */
export interface LambdaContext {
  getRemainingTimeInMillis(): number;
}

/** A handler of one message. What it throws says what is to be done with the message. */
export type Handle<Data, Context> = (message: Message<Data>, context: Context) => unknown;

/** What Lambda calls. */
export type Handler<Context> = (event: SqsEvent, context: Context) => Promise<SqsBatchResponse>;

/** By which the testing helper finds the handler of one message. */
export const HANDLE = Symbol.for('@redeliver/handler/handle');

/** The longest invocation of Lambda. */
const INVOCATION_MAX = 900_000;

export function handlerIn<Data, Context extends LambdaContext>(
  world: () => World, handle: Handle<Data, Context>,
): Handler<Context> {
  const handler: Handler<Context> = async (event, context) => {
    const { clock } = world();
    const remaining = context?.getRemainingTimeInMillis?.() ?? INVOCATION_MAX;
    const one = (message: Message) => handle(message as Message<Data>, context);
    return processBatch(world(), one, event, clock.now() + remaining);
  };
  return Object.assign(handler, { [HANDLE]: handle });
}
