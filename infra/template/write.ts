// Writes the template of the bundle in target/lambda: write.ts ARCHITECTURE ZIP FILE

import * as lambda from 'aws-cdk-lib/aws-lambda';
import { writeFileSync } from 'node:fs';

import { templateFile } from './template';

const [name, zip, file] = process.argv.slice(2);
if (zip === undefined || file === undefined) {
  throw new Error('usage: write.ts arm64|x86-64 ZIP FILE');
}
const architecture = name === 'x86-64' ? lambda.Architecture.X86_64 : lambda.Architecture.ARM_64;
writeFileSync(file, templateFile({ architecture, zip }));
