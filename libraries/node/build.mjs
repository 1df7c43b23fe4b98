// Both builds: ESM, and CommonJS for those who bundle or require. Each directory says what its files are.

import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const typescript = createRequire(import.meta.url).resolve('typescript/package.json');
const tsc = join(dirname(typescript), 'bin', 'tsc');
rmSync('dist', { recursive: true, force: true });
for (const [format, type] of [['esm', 'module'], ['cjs', 'commonjs']]) {
  execFileSync(process.execPath, [tsc, '--project', `tsconfig.${format}.json`], { stdio: 'inherit' });
  writeFileSync(`dist/${format}/package.json`, `${JSON.stringify({ type, sideEffects: false })}\n`);
}
