// What a retry policy says to who calls the target: its breaker, its calls at once, its lists. All else is the
// failed-message-processor's, which checks the whole policy.

import { kindOf, type HandlerError } from './errors.ts';
import { childrenOf, hasTwice } from './json.ts';
import { ERROR_TYPE_BYTES_MAX, clean } from './text.ts';

/** In the words of Resilience4j; times in milliseconds. */
export interface CircuitBreaker {
  readonly failureRate: number;
  readonly minimumCalls: number;
  readonly window: number;
  readonly probeInterval: number;
  readonly probeIntervalMax: number;
  readonly opensOn: readonly string[];
  readonly holdMax: number;
}

/** Calls at once after the first one. */
export interface Immediate {
  readonly maxAttempts: number;
  /** Milliseconds. */
  readonly delay: number;
}

export interface Policy {
  readonly circuitBreaker: CircuitBreaker | undefined;
  readonly immediate: Immediate | undefined;
  readonly retryable: readonly string[] | undefined;
  readonly nonRetryable: readonly string[] | undefined;
}

const OPENS_ON = ['Http.*', 'HttpStatus.429', 'HttpStatus.5*', 'Lambda.*', 'Sandbox.Timedout', 'Timeout'];
const PRESETS = ['default', 'none', 'transient', 'resource_availability', 'critical'].map((name) => `durable_${name}`);

type Members = Readonly<Record<string, unknown>>;

/** @throws with all that is wrong with it, each with its JSON Pointer. */
export function readPolicy(text: string): Policy {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    throw new Error('is not JSON; it takes the policy itself, not a file\'s name');
  }
  const checked = new Checked(document);
  checked.standTwice(text.trim(), '');
  const policy = {
    circuitBreaker: checked.breaker(),
    immediate: checked.immediate(),
    retryable: checked.globs(checked.document, 'retryable', ''),
    nonRetryable: checked.globs(checked.document, 'non_retryable', ''),
  };
  checked.lists(policy);
  if ('preset' in checked.document && !PRESETS.includes(checked.document.preset as string)) {
    checked.wrong('/preset', `is none of ${PRESETS.join(', ')}`);
  }
  if (checked.found.length > 0) {
    throw new Error(`is refused: ${checked.found.join('; ')}`);
  }
  return policy;
}

class Checked {
  readonly found: string[] = [];
  readonly document: Members;

  constructor(document: unknown) {
    this.document = this.object(document, '') ?? {};
  }

  wrong(pointer: string, rule: string): undefined {
    this.found.push(`${pointer || 'it'} ${rule}`);
  }

  /** Of two members a parser keeps the last one, but which was meant is anyone's guess. */
  standTwice(text: string, pointer: string): void {
    const children = childrenOf(text);
    if (hasTwice(children)) {
      this.wrong(pointer, 'has a member that stands twice');
    }
    children.forEach((child) => this.standTwice(child.text, `${pointer}/${child.name}`));
  }

  breaker(): CircuitBreaker | undefined {
    const at = '/circuit_breaker';
    const written = this.document.circuit_breaker;
    if (written === false) {
      return undefined;
    }
    const of = written === undefined ? {} : this.object(written, at);
    if (of === undefined) {
      return undefined;
    }
    const number = (name: string, otherwise: number, min: number, max: number) =>
      this.number(of, name, at, min, max) ?? otherwise;
    const breaker = {
      failureRate: this.number(of, 'failure_rate', at, 0.01, 1, false) ?? 0.8,
      minimumCalls: number('minimum_calls', 10, 1, 1000),
      window: 1000 * number('window_seconds', 30, 1, 3600),
      probeInterval: 1000 * number('probe_interval_seconds', 15, 1, 600),
      probeIntervalMax: 1000 * number('probe_interval_seconds_max', 120, 1, 600),
      opensOn: this.globs(of, 'opens_on', at) ?? OPENS_ON,
      holdMax: 1000 * number('hold_seconds_max', 86_400, 60, 1_209_600),
    };
    const names = ['failure_rate', 'minimum_calls', 'window_seconds', 'probe_interval_seconds', 'opens_on'];
    this.others(of, [...names, 'probe_interval_seconds_max', 'hold_seconds_max'], at);
    if (breaker.probeInterval > breaker.probeIntervalMax) {
      const name = 'probe_interval_seconds' in of ? 'probe_interval_seconds' : 'probe_interval_seconds_max';
      this.wrong(`${at}/${name}`, 'makes the first probe interval longer than the longest');
    }
    return breaker;
  }

  immediate(): Immediate | undefined {
    const at = '/immediate';
    const of = 'immediate' in this.document ? this.object(this.document.immediate, at) : undefined;
    if (of === undefined) {
      return undefined;
    }
    ['max_attempts', 'delay_ms'].forEach((name) => name in of || this.wrong(`${at}/${name}`, 'is missing'));
    this.others(of, ['max_attempts', 'delay_ms'], at);
    const maxAttempts = this.number(of, 'max_attempts', at, 1, 10) ?? 1;
    return { maxAttempts, delay: this.number(of, 'delay_ms', at, 0, 10_000) ?? 0 };
  }

  globs(of: Members, name: string, at: string): readonly string[] | undefined {
    const pointer = `${at}/${name}`;
    const list = of[name];
    if (!(name in of)) {
      return undefined;
    }
    if (!Array.isArray(list) || list.length === 0 || new Set(list).size < list.length) {
      return this.wrong(pointer, 'is not a list of different globs');
    }
    list.forEach((glob: unknown, index) => {
      if (typeof glob !== 'string' || glob === '' || [...glob].length > 128) {
        this.wrong(`${pointer}/${index}`, 'is not a glob of 1 to 128 characters');
      }
    });
    return list as string[];
  }

  lists({ retryable, nonRetryable }: Policy): void {
    nonRetryable?.forEach((glob, index) => {
      if (retryable?.includes(glob)) {
        this.wrong(`/non_retryable/${index}`, 'stands in retryable too');
      }
    });
  }

  private object(value: unknown, pointer: string): Members | undefined {
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isObject ? (value as Members) : this.wrong(pointer, 'must be an object');
  }

  private number(of: Members, name: string, at: string, min: number, max: number, isWhole = true): number | undefined {
    const value = of[name];
    if (!(name in of)) {
      return undefined;
    }
    if (typeof value === 'number' && value >= min && value <= max && (Number.isInteger(value) || !isWhole)) {
      return value;
    }
    return this.wrong(`${at}/${name}`, `is not a ${isWhole ? 'whole ' : ''}number from ${min} to ${max}`);
  }

  private others(of: Members, known: readonly string[], at: string): void {
    const unknown = Object.keys(of).filter((name) => !known.includes(name));
    unknown.forEach((name) => this.wrong(`${at}/${name}`, 'is unknown'));
  }
}

/** What a call that failed says of the target: it is there, whatever it thinks of the message, or it is not. */
export type Met = 'answer' | 'outage';

/** Only what would be tried again can be an outage: of all else the policy says that the message is at fault. */
export function met(policy: Policy, error: HandlerError): Met {
  const isListed = matchesOne(policy.circuitBreaker?.opensOn, error.type);
  const isTransient = classify(policy, error.type, kindOf(error)) === 'transient';
  return (error.kind === 'unavailable' || isListed) && isTransient ? 'outage' : 'answer';
}

/** How the target is called again at once, if its error is a blip by the lists and it asked for no delay of its own. */
export function retriesAtOnce(policy: Policy, error: HandlerError): Immediate | undefined {
  const kind = classify(policy, clean(error.type, ERROR_TYPE_BYTES_MAX), kindOf(error));
  return error.retryAfterSeconds === undefined && kind === 'transient' ? policy.immediate : undefined;
}

/** Whether a message that was held for so long may be held once more. */
export function mayBeHeld({ circuitBreaker }: Policy, heldSeconds: number): boolean {
  return heldSeconds * 1000 < (circuitBreaker?.holdMax ?? 86_400_000);
}

function classify(policy: Policy, type: string, kind: 'transient' | 'permanent' | 'snooze'): typeof kind {
  // A snooze is no error, so a list of errors says nothing of it.
  if (kind === 'snooze') {
    return kind;
  }
  if (matchesOne(policy.nonRetryable, type)) {
    return 'permanent';
  }
  // The name of an error of which nobody could say why: it is in no list of answers.
  if (policy.retryable === undefined || type === 'Redrive') {
    return kind;
  }
  return matchesOne(policy.retryable, type) ? 'transient' : 'permanent';
}

function matchesOne(globs: readonly string[] | undefined, text: string): boolean {
  return globs?.some((glob) => matches([...glob], [...text])) ?? false;
}

/**
 * `*` is any text, `?` one character. The last star takes more if what is behind it does not fit: no pattern is slow.
 */
function matches(glob: readonly string[], text: readonly string[]): boolean {
  let [inGlob, inText, star, taken] = [0, 0, -1, 0];
  while (inText < text.length) {
    if (glob[inGlob] === '*') {
      [star, taken] = [inGlob, inText];
      inGlob += 1;
    } else if (glob[inGlob] === '?' || (inGlob < glob.length && glob[inGlob] === text[inText])) {
      inGlob += 1;
      inText += 1;
    } else if (star >= 0) {
      taken += 1;
      [inGlob, inText] = [star + 1, taken];
    } else {
      return false;
    }
  }
  return glob.slice(inGlob).every((character) => character === '*');
}
