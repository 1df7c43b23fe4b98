// Runs all tests in one process: to load the CDK takes seconds, and Node.js' own runner would load it for each file.

import { readdirSync } from 'node:fs';
import { join } from 'node:path';

for (const file of readdirSync(__dirname).filter((name) => name.endsWith('.test.ts')).sort()) {
  require(join(__dirname, file));
}
