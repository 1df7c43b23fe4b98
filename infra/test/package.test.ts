import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

const read = (path: string): string => readFileSync(join(__dirname, '../..', path), 'utf8');
const PACKAGE = JSON.parse(read('infra/package/package.json'));

test('the published package contains the tested files', () => {
  const { devDependencies: pinned } = JSON.parse(read('infra/package.json'));
  for (const [name, version] of Object.entries({ ...PACKAGE.dependencies, ...PACKAGE.devDependencies })) {
    assert.equal(version, pinned[name], name);
  }
  const python = read('infra/package/requirements.txt');
  for (const [name, range] of Object.entries<string>(PACKAGE.peerDependencies)) {
    // The Python test app uses the oldest supported version.
    assert.ok(python.includes(`\n${name}==${range.replace('^', '')} \\\n    --hash=sha256:`), `${name} ${range}`);
  }
});

test('its Python example equals docs/deploy/cdk.md and ends with the call that Python apps need', () => {
  const [example = '', ofThePage] = ['infra/package/README.md', 'docs/deploy/cdk.md'].map((path) => /```python\n(.*?)```/s.exec(read(path))?.[1]);
  assert.equal(example, ofThePage);
  assert.match(example, /\napp\.synth\(\)\n$/);
});

test("the package has the functions' version", () => {
  const [, version] = /\[workspace\.package\]\nversion = "(.*)"/.exec(read('Cargo.toml')) ?? [];
  assert.equal(PACKAGE.version, version);
});
