// The package as a stranger has it: from its tarball, in both forms, with types.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('..', import.meta.url));
const modules = join(here, 'node_modules');
let project: string;

before(() => {
  project = mkdtempSync(join(tmpdir(), 'redeliver-handler-'));
  const [{ filename }] = JSON.parse(execFileSync('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', project], { cwd: here, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }));
  const installed = join(project, 'node_modules', '@redeliver', 'handler');
  mkdirSync(installed, { recursive: true });
  execFileSync('tar', ['-xzf', join(project, filename), '--strip-components=1', '-C', installed]);
  for (const [scope, name] of [['@aws-sdk', 'client-sqs'], ['@types', 'aws-lambda'], ['@types', 'node']] as const) {
    mkdirSync(join(project, 'node_modules', scope), { recursive: true });
    symlinkSync(join(modules, scope, name), join(project, 'node_modules', scope, name));
  }
});

after(() => rmSync(project, { recursive: true, force: true }));

function run(name: string, source: string): string {
  writeFileSync(join(project, name), source);
  const env = { PATH: process.env.PATH, NODE_NO_WARNINGS: '1' };
  return execFileSync(process.execPath, [name], { cwd: project, encoding: 'utf8', env });
}

const USE = `
const handler = createHandler(async ({ data }) => { if (data.bad) throw new PermanentError('no'); });
const trial = async () => console.log((await tryMessage(handler, { data: { bad: true } })).handOff.failure.kind);
`;

test('it is imported as ESM', () => {
  const head = "import { createHandler, PermanentError } from '@redeliver/handler'; import { tryMessage } from '@redeliver/handler/testing';";
  assert.equal(run('a.mjs', `${head}${USE}await trial();`), 'permanent\n');
});

test('it is required as CommonJS', () => {
  const head = "const { createHandler, PermanentError } = require('@redeliver/handler'); const { tryMessage } = require('@redeliver/handler/testing');";
  assert.equal(run('a.cjs', `${head}${USE}trial();`), 'permanent\n');
});

test('an error of one form is known to the other', () => {
  const head = "import { PermanentError } from '@redeliver/handler'; import { createRequire } from 'node:module'; const { tryMessage } = createRequire(import.meta.url)('@redeliver/handler/testing');";
  const use = "console.log((await tryMessage(() => { throw new PermanentError('no'); })).handOff.failure.kind);";
  assert.equal(run('b.mjs', head + use), 'permanent\n');
});

test('it has types in both forms', () => {
  const use = `
import { createHandler, RetryAfter, type Message } from '@redeliver/handler';
import { tryMessage } from '@redeliver/handler/testing';
import type { SQSHandler } from 'aws-lambda';
export const handler = createHandler<{ id: string }>(async (message: Message<{ id: string }>) => {
  const id: string = message.data.id;
  const value: string | Uint8Array | undefined = message.attributes[id]?.value;
  if (value === '') throw new RetryAfter(5, 'later', { type: 'Db.Busy' });
});
export const kind: Promise<string | undefined> = tryMessage(handler).then(({ handOff }) => handOff?.failure.kind);
export const asLambdaHasIt: SQSHandler = handler;
// @ts-expect-error: no such member
createHandler(async (message) => message.nothing);
`;
  writeFileSync(join(project, 'types.mts'), use);
  writeFileSync(join(project, 'types.cts'), use);
  const compilerOptions = { strict: true, module: 'NodeNext', target: 'ES2023', noEmit: true, types: ['node'] };
  writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['types.mts', 'types.cts'] }));
  const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc');
  execFileSync(process.execPath, [tsc, '--project', project], { stdio: 'inherit' });
});

test('it has nothing in it but the builds, and depends on nothing at run time', () => {
  const { dependencies, peerDependencies } = JSON.parse(readFileSync(join(project, 'node_modules/@redeliver/handler/package.json'), 'utf8'));
  assert.deepEqual([dependencies, peerDependencies], [undefined, { '@aws-sdk/client-sqs': '3' }]);
});
