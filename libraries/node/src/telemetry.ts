// Telemetry: JSON lines on standard output, logs and CloudWatch metrics at once ("Specification: Embedded metric
// format", Amazon CloudWatch User Guide). Names and members are those of the Rust functions: alarms and the dashboard
// read them.

import type { Logging } from './settings.ts';
import { rfc3339 } from './time.ts';

/** What happened. No payload, no attribute's value, no target's text. Its fields are those of its line. */
export interface Event {
  readonly name: EventName;
  readonly fields: Readonly<Record<string, string | number>>;
  /** The value of the first metric's dimension, if that has one. */
  readonly by?: string;
  /** Counted or measured, by the metric's name. */
  readonly metrics: Readonly<Partial<Record<Metric, number>>>;
}

type Told = 'at once' | 'at once unless quiet' | 'with its batch';

const TOLD = {
  processed: 'with its batch',
  handed_off: 'with its batch',
  retried_immediately: 'with its batch',
  held: 'with its batch',
  probe_failed: 'at once unless quiet',
  circuit_closed: 'at once unless quiet',
  not_confirmed: 'at once',
  circuit_opened: 'at once',
  unreadable_record: 'at once',
} satisfies Record<string, Told>;

export type EventName = keyof typeof TOLD;

/** In the order of a batch's line. */
const COUNTERS = [
  'Processed', 'HandedOff', 'NotConfirmed', 'ImmediateRetries', 'CircuitOpen', 'Held', 'Probes', 'UnreadableRecord',
] as const;
const MEASURES = ['MessageAgeSeconds', 'TargetSeconds'] as const;
/** Each value of a dimension is a metric that is paid for. */
const DIMENSIONS: Readonly<Record<string, string>> = { HandedOff: 'FailureKind' };

type Metric = (typeof COUNTERS)[number] | (typeof MEASURES)[number];

/** Values of a metric in one line. */
const VALUES_MAX = 100;

type Fields = Record<string, unknown>;

/** What one batch tells. */
export class Telemetry {
  private readonly functionName: string;
  private readonly logging: Logging;
  private readonly now: () => number;
  private readonly write: (lines: string) => void;
  private readonly counts = new Map<string, { metric: Metric; by: string | undefined; count: number }>();
  private readonly values = new Map<Metric, number[]>();
  private readonly failures = new Map<string, number>();

  constructor(functionName: string, logging: Logging, now: () => number, write: (lines: string) => void) {
    this.functionName = functionName;
    this.logging = logging;
    this.now = now;
    this.write = write;
  }

  observe(event: Event): void {
    const { name, fields, metrics } = event;
    const told: Told = TOLD[name];
    const { detail, level } = this.logging;
    if (told === 'at once' || (told === 'at once unless quiet' && level === 'INFO')) {
      this.line(told === 'at once' ? 'WARN' : 'INFO', name, { ...fields, ...metrics }, [
        directive(Object.keys(metrics) as Metric[]),
      ]);
      return;
    }
    this.gather(event);
    if (detail === 'messages' && level === 'INFO') {
      this.line('INFO', name, fields, []);
    }
  }

  /**
   * The batch is over: what was gathered is told. A line has one value of each dimension, one error, and so many
   * values.
   */
  flush(): void {
    const failures = [...this.failures];
    for (let number = 0; ; number += 1) {
      const counted = COUNTERS.flatMap((metric) => this.countsOf(metric)[number] ?? []);
      const plain = counted.filter(({ by }) => by === undefined).map(({ metric }) => metric);
      const measured = [...this.values]
        .map(([metric, all]) => [metric, all.slice(VALUES_MAX * number, VALUES_MAX * (number + 1))] as const)
        .filter(([, values]) => values.length > 0);
      const failure = failures[number];
      if (counted.length === 0 && measured.length === 0 && failure === undefined) {
        return;
      }
      const by = counted.filter((count) => count.by !== undefined);
      const fields: Fields = Object.fromEntries(counted.map(({ metric, count }) => [metric, count]));
      by.forEach((count) => (fields[DIMENSIONS[count.metric] as string] = count.by));
      Object.assign(fields, failure && { error_type: failure[0], failures: failure[1] });
      measured.forEach(([metric, values]) => (fields[metric] = values.length === 1 ? values[0] : values));
      const all = [...plain, ...measured.map(([metric]) => metric)];
      const directives = [...(all.length > 0 ? [directive(all)] : []), ...by.map(({ metric }) => directive([metric]))];
      this.line('INFO', 'batch', fields, directives);
    }
  }

  private countsOf(metric: Metric): { metric: Metric; by: string | undefined; count: number }[] {
    return [...this.counts.values()].filter((count) => count.metric === metric);
  }

  private gather({ name, fields, by, metrics }: Event): void {
    for (const [metric, value] of Object.entries(metrics) as [Metric, number][]) {
      if ((MEASURES as readonly string[]).includes(metric)) {
        this.values.set(metric, [...(this.values.get(metric) ?? []), milliseconds(value)]);
        continue;
      }
      const of = metric in DIMENSIONS ? by : undefined;
      const count = this.counts.get(`${metric} ${of}`)?.count ?? 0;
      this.counts.set(`${metric} ${of}`, { metric, by: of, count: count + value });
    }
    if (name === 'handed_off') {
      const type = String(fields.error_type);
      this.failures.set(type, (this.failures.get(type) ?? 0) + 1);
    }
  }

  private line(level: string, event: string, fields: Fields, directives: readonly object[]): void {
    const now = this.now();
    const aws = directives.length > 0 ? { Timestamp: Math.floor(now), CloudWatchMetrics: directives } : undefined;
    const line = { timestamp: rfc3339(now), level, event, Function: this.functionName, ...fields, _aws: aws };
    const rounded = (_: string, value: unknown) => (typeof value === 'number' ? milliseconds(value) : value);
    try {
      this.write(`${JSON.stringify(line, rounded)}\n`);
    } catch {
      // A log that cannot be written must not fail the message.
    }
  }
}

function directive(metrics: readonly Metric[]): object {
  const further = metrics.map((metric) => DIMENSIONS[metric]).find((dimension) => dimension !== undefined);
  return {
    Namespace: 'Redeliver',
    Dimensions: [['Function'], ...(further === undefined ? [] : [['Function', further]])],
    Metrics: metrics.map((name) => ({ Name: name, Unit: name.endsWith('Seconds') ? 'Seconds' : 'Count' })),
  };
}

function milliseconds(seconds: number): number {
  return Math.round(seconds * 1000) / 1000;
}
