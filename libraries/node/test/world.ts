// A function in a world of its own: virtual time, a queue that answers as told, and lines that can be read.

import { Breaker } from '../src/breaker.ts';
import { processBatch, type World } from '../src/batch.ts';
import type { Clock } from '../src/clock.ts';
import type { EntryOutcome, Outgoing, Queue } from '../src/delivery.ts';
import type { Message } from '../src/message.ts';
import type { SqsRecord } from '../src/record.ts';
import { readSettings } from '../src/settings.ts';

/** 2026-07-25T17:20:00Z, when everything begins. */
export const START = Date.UTC(2026, 6, 25, 17, 20);

/** Time that goes on when nothing else does. */
export class VirtualClock implements Clock {
  private time = START;
  private sleepers: { readonly at: number; readonly wake: () => void }[] = [];

  now(): number {
    return this.time;
  }

  sleep(milliseconds: number, until: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const sleeper = { at: this.time + Math.max(0, milliseconds), wake: resolve };
      const wake = () => {
        this.sleepers = this.sleepers.filter((other) => other !== sleeper);
        resolve();
      };
      this.sleepers.push(sleeper);
      until.addEventListener('abort', wake);
    });
  }

  /** A handler's own sleep, which nothing ends. */
  pass(seconds: number): Promise<void> {
    return this.sleep(1000 * seconds, new AbortController().signal);
  }

  /** Time passes while nobody is asked: a handler that blocks its thread. */
  block(seconds: number): void {
    this.time += 1000 * seconds;
  }

  get seconds(): number {
    return (this.time - START) / 1000;
  }

  async run<T>(work: Promise<T>): Promise<T> {
    let isOver = false;
    const over = work.finally(() => (isOver = true)).catch(() => {});
    for (;;) {
      await new Promise((resolve) => setImmediate(resolve));
      const next = this.sleepers.sort((a, b) => a.at - b.at).shift();
      if (isOver || next === undefined) {
        await Promise.race([over, new Promise((resolve) => setImmediate(resolve))]);
        if (!isOver) {
          throw new Error('nobody sleeps, and the work is not over');
        }
        return work;
      }
      this.time = Math.max(this.time, next.at);
      next.wake();
    }
  }
}

/** Takes everything, unless told what to answer: to its n-th request, or not at all. */
export class FakeQueue implements Queue {
  readonly requests: (readonly Outgoing[])[] = [];
  readonly confirmed: Outgoing[] = [];
  private readonly answers: (undefined | EntryOutcome[] | Promise<never>)[];

  constructor(...answers: (undefined | EntryOutcome[] | Promise<never>)[]) {
    this.answers = answers;
  }

  async send(entries: readonly Outgoing[]): Promise<readonly EntryOutcome[]> {
    this.requests.push(entries);
    const outcomes = (await this.answers[this.requests.length - 1]) ?? entries.map(() => undefined);
    entries.forEach((entry, index) => index < outcomes.length && outcomes[index] === undefined && this.confirmed.push(entry));
    return outcomes;
  }
}

export const NEVER = new Promise<never>(() => {});

export function id(n: number): string {
  return `6f1c0d3e-8a55-4c8e-9a3f-${String(n).padStart(12, '0')}`;
}

export function envelope(n: number, metadata: Record<string, unknown> = {}, data: unknown = { n }): string {
  return JSON.stringify({ metadata: { message_id: id(n), ...metadata }, data });
}

/** As Lambda writes it. */
export function record(n: number, body = envelope(n), more: Partial<SqsRecord> = {}): SqsRecord {
  return {
    messageId: `sqs-${n}`,
    body,
    messageAttributes: {},
    eventSourceARN: 'arn:aws:sqs:eu-central-1:000000000000:source',
    ...more,
    attributes: { SentTimestamp: String(START - 1000), ApproximateReceiveCount: '1', ...more.attributes },
  };
}

export function ten(): SqsRecord[] {
  return Array.from({ length: 10 }, (_, n) => record(n));
}

export function text(value: string): SqsRecord['messageAttributes'][string] {
  return { dataType: 'String', stringValue: value };
}

/** One environment of a function. */
export class Setup {
  readonly clock = new VirtualClock();
  readonly lines: Record<string, any>[] = [];
  readonly world: World;
  readonly queue: FakeQueue;

  constructor(settings: Record<string, string> = {}, queue = new FakeQueue()) {
    const read = readSettings({ INTERMEDIATE_DLQ_URL: 'https://sqs.invalid/0/intermediate', ...settings });
    const { circuitBreaker } = read.policy;
    this.queue = queue;
    this.world = {
      settings: read,
      queue,
      clock: this.clock,
      breaker: circuitBreaker && new Breaker(circuitBreaker),
      write: (line) => void this.lines.push(JSON.parse(line)),
    };
  }

  /** The ids of the records reported as failed. */
  async process(records: readonly SqsRecord[], handle: (message: Message<any>) => unknown, seconds = 30): Promise<string[]> {
    const deadline = this.clock.now() + 1000 * seconds;
    const answer = await this.clock.run(processBatch(this.world, handle, { Records: records }, deadline));
    return answer.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
  }

  /** `Failure` of each message that was handed off, by its body's `n` or its body. */
  failures(): Record<string, Record<string, any>> {
    return Object.fromEntries(this.queue.confirmed.map(({ body, attributes }) => {
      return [nOf(body), JSON.parse(attributes.get('Failure')?.value as string)];
    }));
  }

  /** `type kind` of each. */
  told(): Record<string, string> {
    return Object.fromEntries(Object.entries(this.failures()).map(([n, { type, kind }]) => [n, `${type} ${kind}`]));
  }
}

function nOf(body: string): string {
  try {
    return String(JSON.parse(body).data.n);
  } catch {
    return body;
  }
}
