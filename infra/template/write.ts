// Writes the templates for the bundles in target/lambda: write.ts ARCHITECTURE FILE OWN-FUNCTION-FILE ORDERED-FILE

import * as lambda from 'aws-cdk-lib/aws-lambda';
import { writeFileSync } from 'node:fs';

import { ownFunctionTemplateFile } from './own-function';
import { orderedTemplateFile } from './ordered';
import { templateFile } from './template';

const [name, file, ownFunctionFile, orderedFile] = process.argv.slice(2);
if (file === undefined || ownFunctionFile === undefined || orderedFile === undefined) {
  throw new Error('usage: write.ts arm64|x86-64 FILE OWN-FUNCTION-FILE ORDERED-FILE');
}
const architecture = name === 'x86-64' ? lambda.Architecture.X86_64 : lambda.Architecture.ARM_64;
writeFileSync(file, templateFile({ architecture }));
writeFileSync(ownFunctionFile, ownFunctionTemplateFile({ architecture }));
writeFileSync(orderedFile, orderedTemplateFile({ architecture }));
