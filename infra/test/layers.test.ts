import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { describe, test } from 'node:test';

const LIB = join(__dirname, '../lib');

/** The files of lib, one layer per line, lowest first. A file may import only from its own layer and lower ones. */
const LAYERS = [
  // Values, and rules for single values.
  'backoff choices environment metrics names nearest package-files patterns policy props-error queue-key range ' +
    'region',
  'event-sources schemas shape topic-subscriptions user-function',
  // The props, as passed and as plain values.
  'existing-queue notify producers retry-policy secret-parameter sigv4 target',
  'normalized-props policy-document policy-shape props props-shape',
  // The plan: the props with every default.
  'alarm-topic archive common-settings messages plan',
  // The parts of every loop.
  'bundles function function-role layer log-group outputs queues source-queue vpc',
  'alarm annotator message-processor',
  // The loop of each strategy.
  'strategy/definition strategy/on-queue strategy/policy-problems strategy/resend strategy/resend-watch',
  'strategy/delayed-resend strategy/direct-resend strategy/index strategy/ordered strategy/visibility',
  // The checks on a plan, and the monitoring of a loop.
  'async-plan checks existing-queue-checks function-target planning',
  'alarms dashboard existing-source-queue log-queries target-alarm',
  // The constructs, and the app.
  'async-retry context index redeliver stack',
].map((files) => files.split(' '));
const FILES = LAYERS.flat();

function importsOf(file: string): string[] {
  const imports = readFileSync(join(LIB, `${file}.ts`), 'utf8').matchAll(/\b(?:from |import\()'(\.[^']+)'/g);
  return [...imports].map(([, path = '']) => posix.join(posix.dirname(file), path));
}

/** Returns the first import cycle, in which each file imports the next. */
function firstCycle(files = FILES, above: readonly string[] = [], seen = new Set<string>()): readonly string[] {
  for (const file of files) {
    if (above.includes(file)) {
      return [...above.slice(above.indexOf(file)), file];
    }
    const circle = seen.has(file) ? [] : firstCycle(importsOf(file), [...above, file], seen.add(file));
    if (circle.length > 0) {
      return circle;
    }
  }
  return [];
}

describe('each file of lib', () => {
  const layerOf = (file: string): number => LAYERS.findIndex((layer) => layer.includes(file));

  test('has a layer', () => {
    const names = readdirSync(LIB, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
    assert.deepEqual(names.map((name) => name.slice(0, -'.ts'.length).replace('\\', '/')).sort(), [...FILES].sort());
  });

  test('imports nothing from a layer above', () => {
    const upward = FILES.flatMap((file) => importsOf(file).filter((it) => layerOf(it) > layerOf(file)).map((it) => `${file} -> ${it}`));
    assert.equal(upward[0], undefined);
  });

  test('is in no import cycle', () => assert.equal(firstCycle().join(' -> '), ''));
});
