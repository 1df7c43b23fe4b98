// What a handler throws, and what is made of it.

import type { Kind } from './failure.ts';

/** What is the same in each of the library's errors. */
export interface ErrorOptions {
  /**
   * What the policy's lists match on, and what is logged: write a name that stands in your source, such as `Db.Busy`.
   */
  readonly type?: string;
  readonly cause?: unknown;
}

/** UTF-16 units of a name. */
const NAME_MAX = 1024;
/** In a symbol of the whole process: both builds of this package may be loaded. */
const ANSWER = Symbol.for('@redeliver/handler/answer');

interface Answer {
  readonly kind: 'transient' | 'permanent' | 'snooze' | 'unavailable';
  readonly retryAfterSeconds: number | undefined;
}

abstract class Answered extends Error {
  readonly [ANSWER]: Answer;

  constructor(name: string, kind: Answer['kind'], after: number | undefined, message: string, options: ErrorOptions) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined);
    if (after !== undefined && !(after >= 0 && after < Infinity)) {
      throw new RangeError(`${name} takes a number of seconds, 0 or more`);
    }
    this.name = options.type ?? name;
    this[ANSWER] = { kind, retryAfterSeconds: after };
  }
}

/** Do not retry: the message goes to the final DLQ as `NON_RETRYABLE_ERROR`. */
export class PermanentError extends Answered {
  constructor(message = '', options: ErrorOptions = {}) {
    super('PermanentError', 'permanent', undefined, message, options);
  }
}

/** Retry, but not before so many seconds. It spends an attempt. */
export class RetryAfter extends Answered {
  constructor(seconds: number, message = '', options: ErrorOptions = {}) {
    super('RetryAfter', 'transient', seconds, message, options);
  }
}

/** Not yet: come back after so many seconds, without spending an attempt; at most 100 times. */
export class Snooze extends Answered {
  constructor(seconds: number, message = '', options: ErrorOptions = {}) {
    super('Snooze', 'snooze', seconds, message, options);
  }
}

/** What the handler needs is down: a retry as after any other error, and an outage for the circuit breaker. */
export class Unavailable extends Answered {
  constructor(message = '', options: ErrorOptions & { readonly retryAfterSeconds?: number } = {}) {
    super('Unavailable', 'unavailable', options.retryAfterSeconds, message, options);
  }
}

/** Why a message is not done. */
export interface HandlerError extends Answer {
  /** The whole name. */
  readonly type: string;
  readonly details: string;
  /** The name as it may stand in logs: no text that a target or a message has said. */
  readonly loggable: string;
}

/** Of a call that the invocation's end cut off. */
export const TIMEOUT = ours('Timeout', 'the target did not answer before the invocation\'s end', 'transient');

export function ours(type: string, details: string, kind: Answer['kind']): HandlerError {
  return { type, details, kind, retryAfterSeconds: undefined, loggable: type };
}

/** Whatever it is: a handler can throw anything, also what throws when it is looked at. */
export function errorOf(thrown: unknown): HandlerError {
  try {
    return read(thrown);
  } catch {
    return notAnError('the handler threw something that cannot be read');
  }
}

function read(thrown: unknown): HandlerError {
  if (typeof thrown === 'string') {
    return notAnError(thrown);
  }
  if (typeof thrown !== 'object' || thrown === null) {
    return notAnError(`the handler threw ${thrown === null ? 'null' : typeof thrown} instead of an error`);
  }
  const { name, message, [ANSWER]: answer } = thrown as Partial<Error> & { readonly [ANSWER]?: Answer };
  if (typeof name !== 'string' || typeof message !== 'string') {
    return notAnError('the handler threw an object that is no error');
  }
  // Lists are matched on all of it, and somebody may have written a book.
  const type = name.slice(0, NAME_MAX).toWellFormed();
  // A class's name stands in a program's source. Others may be what a target answered, such as a code of a service.
  const isPlain = /^[\w.$-]{1,128}$/.test(type);
  const isOfSource = isPlain && (answer !== undefined || isClassOf(thrown, type));
  return {
    type,
    details: message,
    kind: answer?.kind ?? 'transient',
    retryAfterSeconds: answer?.retryAfterSeconds,
    loggable: isOfSource ? type : 'FromTarget',
  };
}

function isClassOf(thrown: object, name: string): boolean {
  const classOf = Object.getPrototypeOf(thrown) as { readonly constructor?: { readonly name?: unknown } } | null;
  return classOf !== null && (classOf.constructor?.name === name || isClassOf(classOf, name));
}

function notAnError(details: string): HandlerError {
  return ours('NotAnError', details, 'transient');
}

/** For the document: that it was an outage is for the breaker alone. */
export function kindOf({ kind }: HandlerError): Exclude<Kind, 'not_started' | 'held'> {
  return kind === 'unavailable' ? 'transient' : kind;
}

/** Whole seconds, rounded up: a floor must not be undercut. */
export function wholeSeconds(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : Math.min(Math.ceil(seconds), Number.MAX_SAFE_INTEGER);
}
