// Writes the template of the bundles in target/lambda: write.ts ARCHITECTURE FILE

import * as lambda from 'aws-cdk-lib/aws-lambda';
import { writeFileSync } from 'node:fs';

import { templateFile } from './template';

const [name, file] = process.argv.slice(2);
if (file === undefined) {
  throw new Error('usage: write.ts arm64|x86-64 FILE');
}
const architecture = name === 'x86-64' ? lambda.Architecture.X86_64 : lambda.Architecture.ARM_64;
writeFileSync(file, templateFile({ architecture }));
