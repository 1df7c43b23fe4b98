// The settings: environment variables, all checked before the first message.

import { pointerOf, whyNoIdAttribute, type IdSources } from './plain.ts';
import { readPolicy, type Policy } from './policy.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

export interface Logging {
  /** `messages`: also a line for each message. */
  readonly detail: 'batches' | 'messages';
  /** `WARN`: only what somebody must act on, and the batches' lines, which hold the metrics. */
  readonly level: 'INFO' | 'WARN';
}

export interface Settings {
  readonly intermediateDlqUrl: string;
  readonly policy: Policy;
  readonly maxConcurrency: number;
  /** With `ENVELOPE=optional`. */
  readonly idSources: IdSources | undefined;
  readonly logging: Logging;
  /** The function's name in Lambda: the metrics' dimension. */
  readonly functionName: string;
}

/** As many as a batch can have. */
const CONCURRENCY_MAX = 10_000;
/** A user's own logger may read the same variable, and know more levels. */
const LEVELS: Readonly<Record<string, Logging['level']>> = {
  TRACE: 'INFO', DEBUG: 'INFO', INFO: 'INFO',
  WARN: 'WARN', WARNING: 'WARN', ERROR: 'WARN', CRITICAL: 'WARN', FATAL: 'WARN', SILENT: 'WARN',
};

/** @throws with all that is missing or wrong, a line each. */
export function readSettings(environment: Environment): Settings {
  const wrong: string[] = [];
  // A variable that is set to the empty string is not set.
  const optional = (name: string) => environment[name] || undefined;
  const check = (name: string, why: string | false | undefined) => {
    if (why) {
      wrong.push(`- ${name} ${why}`);
    }
  };
  const oneOf = <T extends string>(name: string, values: readonly [T, T]): T => {
    const value = optional(name) ?? values[0];
    check(name, !values.includes(value as T) && `is neither ${values.join(' nor ')}; set it to one of them`);
    return value as T;
  };
  const strategy = optional('STRATEGY') ?? 'delayed-resend';
  check('STRATEGY', strategy !== 'delayed-resend' && 'is not delayed-resend, the only one with a function of your own');
  const intermediateDlqUrl = optional('INTERMEDIATE_DLQ_URL');
  check('INTERMEDIATE_DLQ_URL', whyNoQueueUrl(intermediateDlqUrl));
  const level = LEVELS[optional('LOG_LEVEL')?.toUpperCase() ?? 'INFO'];
  check('LOG_LEVEL', level === undefined && 'is neither INFO nor WARN; set it to one of them');
  const maxConcurrency = Number(optional('MAX_CONCURRENCY') ?? 10);
  const isConcurrency = Number.isInteger(maxConcurrency) && maxConcurrency >= 1 && maxConcurrency <= CONCURRENCY_MAX;
  check('MAX_CONCURRENCY', !isConcurrency && `is not a whole number from 1 to ${CONCURRENCY_MAX}`);
  let policy: Policy | undefined;
  try {
    policy = readPolicy(optional('RETRY_POLICY') ?? '{}');
  } catch (error) {
    check('RETRY_POLICY', (error as Error).message);
  }
  const idSources = readIdSources(oneOf('ENVELOPE', ['required', 'optional']) === 'optional', optional, check);
  const detail = oneOf('LOG_DETAIL', ['batches', 'messages']);
  if (wrong.length > 0 || policy === undefined || intermediateDlqUrl === undefined || level === undefined) {
    throw new Error(`the function cannot start; its environment variables are not right:\n${wrong.join('\n')}`);
  }
  const functionName = optional('AWS_LAMBDA_FUNCTION_NAME') ?? 'message-processor';
  return { intermediateDlqUrl, policy, maxConcurrency, idSources, logging: { detail, level }, functionName };
}

function readIdSources(
  isOptional: boolean,
  optional: (name: string) => string | undefined,
  check: (name: string, why: string | false | undefined) => void,
): IdSources | undefined {
  const attribute = optional('MESSAGE_ID_ATTRIBUTE');
  const pointer = optional('MESSAGE_ID_POINTER');
  if (!isOptional) {
    const why = 'is for messages without an envelope: set ENVELOPE=optional, or remove it';
    check('MESSAGE_ID_ATTRIBUTE', attribute !== undefined && why);
    check('MESSAGE_ID_POINTER', pointer !== undefined && why);
    return undefined;
  }
  const names = pointer === undefined ? undefined : pointerOf(pointer);
  check('MESSAGE_ID_ATTRIBUTE', attribute !== undefined && whyNoIdAttribute(attribute));
  check('MESSAGE_ID_POINTER', pointer !== undefined && names === undefined && NO_POINTER);
  return { attribute, pointer: names };
}

const NO_POINTER =
  'is not a JSON Pointer to a member: it begins with `/`, and `~` is written ~0, `/` in a name ~1, such as /detail/id';

function whyNoQueueUrl(url: string | undefined): string | undefined {
  if (url === undefined) {
    return 'is missing: set it to the queue\'s URL';
  }
  if (url.endsWith('.fifo')) {
    return 'is a FIFO queue\'s URL: FIFO queues cannot delay single messages; use a standard queue';
  }
  return /^https?:\/\//.test(url) ? undefined : 'is not a queue\'s URL (https://sqs.REGION.amazonaws.com/ACCOUNT/NAME)';
}
