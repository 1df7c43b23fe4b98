// Runs all tests in one process: to load the CDK takes seconds, and Node.js' own runner would load it for each file.

import { readdirSync } from 'node:fs';

const here = new URL('.', import.meta.url);
for (const file of readdirSync(here).filter((name) => name.endsWith('.test.ts')).sort()) {
  await import(new URL(file, here).href);
}
