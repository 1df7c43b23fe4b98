// Runs all tests in one process: to load the CDK takes seconds, and Node.js' own runner would load it for each file.

import { readdirSync } from 'node:fs';
import { join } from 'node:path';

// The CDK's own check of a template takes longer than to make it. The templates of all variants are checked by it, and by
// cfn-lint, where they are written (write-templates.ts); so is each that is deployed.
process.env['CDK_VALIDATION'] = 'false';

for (const file of readdirSync(__dirname).filter((name) => name.endsWith('.test.ts')).sort()) {
  require(join(__dirname, file));
}
