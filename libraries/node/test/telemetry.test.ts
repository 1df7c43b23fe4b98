// The lines of logs and metrics: names and members are those of the Rust functions.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { PermanentError, Unavailable } from '../src/index.ts';
import { Telemetry, type EventName } from '../src/telemetry.ts';
import { Setup, record, ten } from './world.ts';

const metrics = (line: Record<string, any> | undefined) =>
  (line?._aws.CloudWatchMetrics as any[]).map(({ Dimensions, Metrics }) => [Dimensions, Metrics.map(({ Name, Unit }: any) => `${Name} ${Unit}`)]);

test('a batch is one line, and a line more for each further kind of error', async () => {
  const setup = new Setup({ AWS_LAMBDA_FUNCTION_NAME: 'orders' });
  await setup.process(ten(), async ({ data: { n } }) => {
    await setup.clock.pass(0.25);
    if (n < 3) {
      throw n === 0 ? new PermanentError('', { type: 'Order.Unknown' }) : new TypeError('canary');
    }
  });
  const [first, second, ...more] = setup.lines;
  assert.equal(more.length, 0);
  const { _aws, MessageAgeSeconds, TargetSeconds, ...fields } = first ?? {};
  assert.deepEqual(fields, {
    timestamp: '2026-07-25T17:20:00.250000Z', level: 'INFO', event: 'batch', Function: 'orders',
    Processed: 7, HandedOff: 1, FailureKind: 'permanent', error_type: 'Order.Unknown', failures: 1,
  });
  assert.deepEqual([MessageAgeSeconds.length, MessageAgeSeconds[0], TargetSeconds], [10, 1.25, Array(7).fill(0.25)]);
  assert.equal(_aws.Timestamp, Date.UTC(2026, 6, 25, 17, 20, 0, 250));
  assert.deepEqual(metrics(first), [
    [[['Function']], ['Processed Count', 'MessageAgeSeconds Seconds', 'TargetSeconds Seconds']],
    [[['Function'], ['Function', 'FailureKind']], ['HandedOff Count']],
  ]);
  assert.equal(first?._aws.CloudWatchMetrics[0].Namespace, 'Redeliver');
  assert.deepEqual([second?.HandedOff, second?.FailureKind, second?.error_type, second?.failures], [2, 'transient', 'TypeError', 2]);
  assert.ok(!JSON.stringify(setup.lines).includes('canary'));
});

test('a line has at most a hundred values of a metric', async () => {
  const setup = new Setup();
  await setup.process(Array.from({ length: 250 }, (_, n) => record(n)), () => {});
  assert.deepEqual(setup.lines.map(({ TargetSeconds }) => TargetSeconds.length), [100, 100, 50]);
  assert.deepEqual(setup.lines.map(({ Processed }) => Processed), [250, undefined, undefined]);
});

test('each message has a line if that is asked for, and none if it must be quiet', async () => {
  const of = async (settings: Record<string, string>) => {
    const setup = new Setup(settings);
    await setup.process([record(0), record(1)], ({ data: { n } }) => n === 0 && Promise.reject(new TypeError()));
    return setup.lines;
  };
  const lines = await of({ LOG_DETAIL: 'messages' });
  assert.deepEqual(lines.map(({ event }) => event), ['processed', 'handed_off', 'batch']);
  const { timestamp, level, event, Function, ...processed } = lines[0] ?? {};
  assert.deepEqual(processed, { message_id: '6f1c0d3e-8a55-4c8e-9a3f-000000000001', retry_attempt: 0, age_seconds: 1, target_seconds: 0 });
  assert.equal(lines[1]?.kind, 'transient');
  assert.deepEqual((await of({ LOG_DETAIL: 'messages', LOG_LEVEL: 'WARN' })).map(({ event }) => event), ['batch']);
});

test('an outage has one line when it begins, and its messages one a batch', async () => {
  const setup = new Setup({ LOG_LEVEL: 'WARN' });
  const down = () => Promise.reject(new Unavailable('canary'));
  await setup.process(ten(), down);
  await setup.process(ten(), down);
  const opened = setup.lines.find(({ event }) => event === 'circuit_opened');
  assert.deepEqual([opened?.level, opened?.calls, opened?.outages, opened?.error_type, opened?.CircuitOpen], ['WARN', 10, 10, 'Unavailable', 1]);
  assert.ok(opened?.probe_in_seconds >= 11.25 && opened?.probe_in_seconds <= 15);
  const batch = setup.lines.at(-1);
  assert.deepEqual([batch?.event, batch?.HandedOff, batch?.FailureKind, batch?.Held, batch?.CircuitOpen, batch?.error_type], ['batch', undefined, undefined, 10, 1, undefined]);
});

test('metrics are the same whatever is logged', () => {
  const all: [EventName, Record<string, number>, string?][] = [
    ['processed', { Processed: 1, MessageAgeSeconds: 1.5, TargetSeconds: 0.25 }],
    ['handed_off', { HandedOff: 1, MessageAgeSeconds: 2.5 }, 'transient'],
    ['retried_immediately', { ImmediateRetries: 1 }],
    ['held', { Held: 3, CircuitOpen: 1 }],
    ['probe_failed', { Probes: 1, CircuitOpen: 1 }],
    ['circuit_closed', { Probes: 1 }],
    ['not_confirmed', { NotConfirmed: 1 }],
    ['circuit_opened', { CircuitOpen: 1 }],
    ['unreadable_record', { UnreadableRecord: 1 }],
  ];
  const extracted = (lines: string[]): Record<string, number> => {
    const sums: Record<string, number> = {};
    for (const line of lines.map((text) => JSON.parse(text))) {
      for (const { Name } of (line._aws?.CloudWatchMetrics ?? []).flatMap(({ Metrics }: any) => Metrics)) {
        sums[Name] = [line[Name]].flat().reduce((sum, value) => sum + value, sums[Name] ?? 0);
      }
    }
    return sums;
  };
  for (const detail of ['batches', 'messages'] as const) {
    for (const level of ['INFO', 'WARN'] as const) {
      for (const events of [...all.map((event) => [event]), all]) {
        const lines: string[] = [];
        const telemetry = new Telemetry('orders', { detail, level }, () => 0, (line: string) => lines.push(line));
        const sums: Record<string, number> = {};
        for (const [name, metrics, by] of events) {
          const fields = name === 'handed_off' ? { error_type: 'Timeout' } : {};
          telemetry.observe({ name, fields, metrics, ...(by === undefined ? {} : { by }) } as never);
          Object.entries(metrics).forEach(([metric, value]) => (sums[metric] = (sums[metric] ?? 0) + value));
        }
        telemetry.flush();
        assert.deepEqual(extracted(lines), sums, `${detail} ${level}: ${events.map(([name]) => name)}`);
      }
    }
  }
});

test('a probe has a line of its own, unless it must be quiet', () => {
  const events = (level: 'INFO' | 'WARN') => {
    const lines: string[] = [];
    const telemetry = new Telemetry('orders', { detail: 'batches', level }, () => 0, (line: string) => lines.push(line));
    telemetry.observe({ name: 'probe_failed', fields: {}, metrics: { Probes: 1, CircuitOpen: 1 } });
    telemetry.flush();
    return lines.map((line) => JSON.parse(line).event);
  };
  assert.deepEqual([events('INFO'), events('WARN')], [['probe_failed'], ['batch']]);
});
