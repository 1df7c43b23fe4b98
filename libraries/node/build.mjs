// Both builds: ESM, and CommonJS for those who require. One file each, since Node.js takes 20 ms to load thirty small ones.

import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

import { build } from 'esbuild';

const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc');
rmSync('dist', { recursive: true, force: true });
for (const [format, type] of [['esm', 'module'], ['cjs', 'commonjs']]) {
  const outdir = `dist/${format}`;
  const entryPoints = ['src/index.ts', 'src/testing.ts'];
  await build({ entryPoints, outdir, format, bundle: true, platform: 'node', target: 'node20', packages: 'external' });
  // Of the declarations TypeScript itself makes one file for each source.
  execFileSync(process.execPath, [tsc, '--project', 'tsconfig.types.json', '--outDir', outdir], { stdio: 'inherit' });
  writeFileSync(`${outdir}/package.json`, `${JSON.stringify({ type, sideEffects: false })}\n`);
}
