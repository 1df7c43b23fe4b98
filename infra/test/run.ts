// Runs all tests in one process: loading the CDK takes seconds, and Node.js's own runner would load it for each file.

import { readdirSync } from 'node:fs';
import { join } from 'node:path';

// The CDK's own check of a template takes longer than generating it. write-templates.ts checks the templates of all variants
// with it and with cfn-lint, and every deployment checks its own.
process.env['CDK_VALIDATION'] = 'false';

for (const file of readdirSync(__dirname).filter((name) => name.endsWith('.test.ts')).sort()) {
  require(join(__dirname, file));
}
