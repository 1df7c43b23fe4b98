import { App } from 'aws-cdk-lib';
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';

import { Strategy } from '../lib/index';
import { RedeliverStack } from '../lib/stack';
import { cdkJson } from './fakes';
import { fakeBundles } from './stack-support';
import { variant } from './stack-variants';

function app(context: Record<string, string>): () => App {
  return () => {
    const given = { ...cdkJson().context, bundles: fakeBundles(), target: 'https://orders.example.com/hook', ...context };
    const made = new App({ context: given });
    new RedeliverStack(made, '.');
    return made;
  };
}

const SNAPSHOTS: Record<string, () => App> = {
  'redeliver': app({}),
  'redeliver-direct-resend': app({ strategy: Strategy.DIRECT_RESEND }),
  'redeliver-visibility': app({ strategy: Strategy.VISIBILITY }),
  'redeliver-ordered': app({ strategy: Strategy.ORDERED }),
  'redeliver-function': () => variant('function', fakeBundles()).app,
  'async-retry': () => variant('async-retry', fakeBundles()).app,
};

for (const [name, make] of Object.entries(SNAPSHOTS)) {
  test(`the template of ${name} equals its snapshot`, () => {
    const file = join(__dirname, `snapshot/${name}.template.json`);
    const [stack] = make().synth().stacks;
    const text = JSON.stringify(stack?.template, undefined, 2).replaceAll(/[0-9a-f]{64}\.zip/g, 'BUNDLE.zip') + '\n';
    if (process.env['UPDATE_SNAPSHOTS'] === '1') {
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, text);
    }
    const message = 'the template has changed: look at the difference, then run the tests once with UPDATE_SNAPSHOTS=1';
    assert.equal(text, readFileSync(file, 'utf8'), message);
  });
}
